package dev.starling.nn;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;

/** A layer that can compute the activation that follows it in the same pass over memory. */
public interface Fusible extends Layer {
    /** Computes {@code epilogue(forward(x))}. */
    Tensor forward(Tensor x, Epilogue epilogue);

    @Override
    default Tensor forward(Tensor x) {
        return forward(x, Epilogue.NONE);
    }
}
