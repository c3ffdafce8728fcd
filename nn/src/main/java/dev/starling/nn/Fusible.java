package dev.starling.nn;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;

/** A layer that can apply a following activation to its result in the same pass over memory. */
public interface Fusible extends Layer {
    /** Computes {@code epilogue(forward(x))}. */
    Tensor forward(Tensor x, Epilogue epilogue);

    @Override
    default Tensor forward(Tensor x) {
        return forward(x, Epilogue.NONE);
    }
}
