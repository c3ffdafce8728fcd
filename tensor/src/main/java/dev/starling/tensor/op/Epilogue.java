package dev.starling.tensor.op;

import dev.starling.tensor.Tensor;

/** What a contraction or convolution applies to its result while it still lies in registers. */
public enum Epilogue {
    /** Nothing. */
    NONE,
    /** {@link Activation.Relu}. */
    RELU;

    /** Returns the gradient before the epilogue from the one behind it. */
    Tensor gradient(Backward b) {
        return switch (this) {
            case NONE -> b.grad();
            case RELU -> new Activation.Relu().vjp(b)[0];
        };
    }
}
