package dev.starling.tensor.op;

import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** An activation that a contraction, convolution or normalisation applies to its result before writing it. */
public enum Epilogue {
    /** No activation. */
    NONE(null, null),
    /** {@link Activation#RELU}. */
    RELU(Activation.RELU, Activation.RELU_GRADIENT),
    /** {@link Activation#GELU_TANH}; only for dense layers. */
    GELU(Activation.GELU_TANH, Activation.GELU_TANH_GRADIENT);

    private final @Nullable FormulaOp activation;
    private final @Nullable FormulaOp gradient;

    Epilogue(@Nullable FormulaOp activation, @Nullable FormulaOp gradient) {
        this.activation = activation;
        this.gradient = gradient;
    }

    /** Returns the epilogue as an operation of its own, or {@code null} for {@link #NONE}. */
    public @Nullable FormulaOp activation() {
        return activation;
    }

    /**
     * Returns the kernel of the gradient, with operands {@code (kept, g)}, or {@code null} for {@link #NONE}.
     * {@code kept} is the result of ReLU, but the operand of GELU.
     */
    public @Nullable FormulaOp gradient() {
        return gradient;
    }

    /** Applies the epilogue as an operation of its own. */
    public Tensor apply(Tensor x) {
        return activation == null ? x : Tensor.compute(activation, x);
    }

    /** Returns the gradient before the epilogue, given the one after it; {@code kept} as in {@link #gradient()}. */
    Tensor gradient(Backward b, Tensor kept) {
        if (activation == null) {
            return b.grad();
        }
        Tensor[] one = {kept};
        return activation.vjp(new Backward(one, one, new Tensor[] {b.grad()}, new boolean[] {true}))[0];
    }

    /** Requires an epilogue other than GELU, for operations that no library fuses with it. */
    void requireNoGelu(Op op) {
        Check.argument(this != GELU, op, "does not support GELU as an epilogue",
                "apply Activation.GELU_TANH to the result");
    }

    /**
     * An epilogue that was applied to a result.
     *
     * @param epilogue not {@link #NONE}
     * @param kept the operand of its gradient
     */
    public record Applied(Epilogue epilogue, Tensor kept) { }
}
