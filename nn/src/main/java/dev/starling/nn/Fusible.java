package dev.starling.nn;

import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.Relu;
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

    /** Returns the epilogue that computes the same as {@code layer}, or {@link Epilogue#NONE} if there is none. */
    static Epilogue epilogue(Layer layer) {
        return switch (layer) {
            case Relu _ -> Epilogue.RELU;
            case Gelu(boolean tanh) when tanh -> Epilogue.GELU;
            default -> Epilogue.NONE;
        };
    }
}
