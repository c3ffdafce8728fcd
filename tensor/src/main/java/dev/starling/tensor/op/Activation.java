package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Activation functions, and fused kernels of their gradients. A gradient kernel has operands {@code (x or y, g)} and no
 * gradient of its own: where the gradient is itself recorded, it is composed of differentiable operations.
 */
public final class Activation {
    /** max(x, 0); gradient 0 at 0. */
    public static final FormulaOp RELU = of("relu", Opcode.RELU, b -> gradient(b, Activation.RELU_GRADIENT, b.out(0),
            () -> b.out(0).gt(0).to(b.out(0).dtype())));
    /** 1/(1 + e⁻ˣ). */
    public static final FormulaOp SIGMOID = of("sigmoid", Opcode.SIGMOID,
            b -> gradient(b, Activation.SIGMOID_GRADIENT, b.out(0), () -> b.out(0).mul(b.out(0).neg().add(1))));
    /** x/(1 + e⁻ˣ), also called swish. (Elfwing et al., 2017) */
    public static final FormulaOp SILU = of("silu", Opcode.SILU,
            b -> gradient(b, Activation.SILU_GRADIENT, b.in(0), () -> {
                Tensor s = b.in(0).sigmoid();
                return s.add(b.out(0).mul(s.neg().add(1)));
            }));
    /** ln(1 + eˣ). */
    public static final FormulaOp SOFTPLUS = of("softplus", Opcode.SOFTPLUS, b -> b.grad().mul(b.in(0).sigmoid()));
    /** x·Φ(x). (Hendrycks and Gimpel, 2016) */
    public static final FormulaOp GELU = of("gelu", Opcode.GELU,
            b -> gradient(b, Activation.GELU_GRADIENT, b.in(0), () -> geluSlope(b.in(0))));
    /** x·½(1 + tanh(√(2/π)(x + 0.044715x³))), an approximation of {@link #GELU}. */
    public static final FormulaOp GELU_TANH = of("geluTanh", Opcode.GELU_TANH,
            b -> gradient(b, Activation.GELU_TANH_GRADIENT, b.in(0), () -> geluTanhSlope(b.in(0))));
    /** x/(1 + |x|). (Bergstra et al., 2009) */
    public static final FormulaOp SOFTSIGN = FormulaOp.of("softsign", FormulaOp.Types.FLOATING,
            Formula.of(Scalar.operand(0).div(Scalar.operand(0).abs().add(1))),
            b -> Unary.wide(b, (g, x) -> g.div(x.abs().add(1).square())));
    /** Operands (y, g): g where y &gt; 0, else 0. */
    public static final FormulaOp RELU_GRADIENT = kernel("reluGradient", Opcode.RELU_GRADIENT);
    /** Operands (y, g): g·y·(1 - y). */
    public static final FormulaOp SIGMOID_GRADIENT = kernel("sigmoidGradient", Opcode.SIGMOID_GRADIENT);
    /** Operands (y, g): g·(1 - y²). */
    public static final FormulaOp TANH_GRADIENT = kernel("tanhGradient", Opcode.TANH_GRADIENT);
    /** Operands (x, g): g·σ(x)(1 + x(1 - σ(x))). */
    public static final FormulaOp SILU_GRADIENT = kernel("siluGradient", Opcode.SILU_GRADIENT);
    /** Operands (x, g): the gradient of {@link #GELU}. */
    public static final FormulaOp GELU_GRADIENT = kernel("geluGradient", Opcode.GELU_GRADIENT);
    /** Operands (x, g): the gradient of {@link #GELU_TANH}. */
    public static final FormulaOp GELU_TANH_GRADIENT = kernel("geluTanhGradient", Opcode.GELU_TANH_GRADIENT);

    private static final double CUBIC = 0.044715;
    private static final double SCALE = Math.sqrt(2 / Math.PI);

    private Activation() { }

    private static FormulaOp of(String name, Opcode opcode, Function<Backward, Tensor> gradient) {
        return FormulaOp.of(name, FormulaOp.Types.FLOATING, Formula.of(opcode), gradient);
    }

    private static FormulaOp kernel(String name, Opcode opcode) {
        return new FormulaOp(name, FormulaOp.Types.FLOATING, Formula.of(opcode), null);
    }

    /** Returns the gradient through {@code kernel} or, if it is recorded, as {@code g·slope}. */
    static Tensor gradient(Backward b, FormulaOp kernel, Tensor of, Supplier<Tensor> slope) {
        return b.recorded() ? b.grad().mul(slope.get()) : Tensor.compute(kernel, of, b.grad());
    }

    private static Tensor geluSlope(Tensor x) {
        Tensor cdf = x.mul(Math.sqrt(0.5)).erf().add(1).mul(0.5);
        return cdf.add(x.mul(x.square().mul(-0.5).exp()).mul(1 / Math.sqrt(2 * Math.PI)));
    }

    private static Tensor geluTanhSlope(Tensor x) {
        Tensor t = x.add(x.mul(x.square()).mul(CUBIC)).mul(SCALE).tanh();
        Tensor inner = x.square().mul(3 * CUBIC).add(1).mul(SCALE);
        return t.add(1).mul(0.5).add(x.mul(t.square().neg().add(1)).mul(inner).mul(0.5));
    }

    /**
     * x where x &gt; 0, else slope·x.
     *
     * @param slope for negative x
     */
    public record LeakyRelu(double slope) implements Elementwise {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LEAKY_RELU, 1);
        }

        @Override
        public double[] parameters() {
            return new double[] {slope};
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Where.select(b.in(0).gt(0), b.grad(), b.grad().mul(slope))};
        }
    }

    /**
     * x where x &gt; 0, else alpha·(eˣ - 1). (Clevert et al., 2015)
     *
     * @param alpha the negated limit for x → -∞
     */
    public record Elu(double alpha) implements Elementwise {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ELU, 1);
        }

        @Override
        public double[] parameters() {
            return new double[] {alpha};
        }

        @Override
        public Spec[] infer(Spec... in) {
            return Elementwise.floating(this, 1, in);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor x = b.in(0);
            Tensor slope = x.minimum(x.scalarLike(0)).exp().mul(alpha);
            return new Tensor[] {Where.select(x.gt(0), b.grad(), b.grad().mul(slope))};
        }
    }
}
