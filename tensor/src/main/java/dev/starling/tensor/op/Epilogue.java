package dev.starling.tensor.op;

import dev.starling.tensor.Tensor;

/** What a contraction, convolution or normalisation applies to its result before that is written. */
public enum Epilogue {
    /** Nothing. */
    NONE(null, null),
    /** {@link Activation.Relu}. */
    RELU(new Activation.Relu(), new Activation.ReluGradient()),
    /** {@link Activation.Gelu} by tanh; only of dense layers. */
    GELU(new Activation.Gelu(true), new Activation.GeluGradient(true));

    private final Activation activation;
    private final Activation gradient;

    Epilogue(Activation activation, Activation gradient) {
        this.activation = activation;
        this.gradient = gradient;
    }

    /** Returns the same as an operation of its own, {@code null} for {@link #NONE}. */
    public Activation activation() {
        return activation;
    }

    /**
     * Returns the kernel of its gradient, {@code null} for {@link #NONE}: of {@code (kept, g)}, where {@code kept} is
     * the result of ReLU, and what GELU was applied to.
     */
    public Activation gradient() {
        return gradient;
    }

    /** Applies it in an operation of its own. */
    public Tensor apply(Tensor x) {
        return this == NONE ? x : Tensor.compute(activation, x);
    }

    /** Returns the gradient before the epilogue from the one behind it; {@code kept} as in {@link #gradient()}. */
    Tensor gradient(Backward b, Tensor kept) {
        if (this == NONE) {
            return b.grad();
        }
        Tensor[] one = {kept};
        return activation.vjp(new Backward(one, one, new Tensor[] {b.grad()}, new boolean[] {true}))[0];
    }

    /** Requires an epilogue other than GELU, for operations that no library computes together with it. */
    void requireNoGelu(Op op) {
        Check.argument(this != GELU, op, "takes no GELU", "apply Activation.Gelu to the result");
    }

    /**
     * An epilogue that a result has been through.
     *
     * @param epilogue not {@link #NONE}
     * @param kept what its gradient is computed from
     */
    public record Applied(Epilogue epilogue, Tensor kept) { }
}
