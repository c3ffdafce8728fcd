package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import java.util.function.Supplier;

/**
 * Activation functions, and fused kernels of their gradients. A gradient kernel has operands {@code (x or y, g)} and no
 * gradient of its own: where the gradient is itself recorded, {@link #gradient} composes it of differentiable
 * operations.
 */
public sealed interface Activation extends Elementwise {
    @Override
    default Spec[] infer(Spec... in) {
        return Elementwise.floating(this, formula().operands(), in);
    }

    /** Returns the gradient through {@code kernel} or, if it is recorded, as {@code g·slope}. */
    static Tensor gradient(Backward b, Activation kernel, Tensor of, Supplier<Tensor> slope) {
        return b.recorded() ? b.grad().mul(slope.get()) : Tensor.compute(kernel, of, b.grad());
    }

    /** max(x, 0); gradient 0 at 0. */
    record Relu() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.RELU);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {gradient(b, new ReluGradient(), b.out(0),
                    () -> b.out(0).gt(0).to(b.out(0).dtype()))};
        }
    }

    /**
     * x where x &gt; 0, else slope·x.
     *
     * @param slope for negative x
     */
    record LeakyRelu(double slope) implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.LEAKY_RELU, 1);
        }

        @Override
        public double[] parameters() {
            return new double[] {slope};
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
    record Elu(double alpha) implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.ELU, 1);
        }

        @Override
        public double[] parameters() {
            return new double[] {alpha};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor x = b.in(0);
            Tensor slope = x.minimum(x.scalarLike(0)).exp().mul(alpha);
            return new Tensor[] {Where.select(x.gt(0), b.grad(), b.grad().mul(slope))};
        }
    }

    /** 1/(1 + e⁻ˣ). */
    record Sigmoid() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SIGMOID);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor y = b.out(0);
            return new Tensor[] {gradient(b, new SigmoidGradient(), y, () -> y.mul(y.neg().add(1)))};
        }
    }

    /** x/(1 + e⁻ˣ), also called swish. (Elfwing et al., 2017) */
    record Silu() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SILU);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor x = b.in(0);
            return new Tensor[] {gradient(b, new SiluGradient(), x, () -> {
                Tensor s = x.sigmoid();
                return s.add(b.out(0).mul(s.neg().add(1)));
            })};
        }
    }

    /** ln(1 + eˣ). */
    record Softplus() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SOFTPLUS);
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().mul(b.in(0).sigmoid())};
        }
    }

    /**
     * x·Φ(x). (Hendrycks and Gimpel, 2016)
     *
     * @param tanh whether Φ is approximated by ½(1 + tanh(√(2/π)(x + 0.044715x³))) instead of by the error function
     */
    record Gelu(boolean tanh) implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(tanh ? Opcode.GELU_TANH : Opcode.GELU);
        }

        private static final double CUBIC = 0.044715;
        private static final double SCALE = Math.sqrt(2 / Math.PI);

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {gradient(b, new GeluGradient(tanh), b.in(0), () -> slope(b.in(0)))};
        }

        private Tensor slope(Tensor x) {
            if (!tanh) {
                Tensor cdf = x.mul(Math.sqrt(0.5)).erf().add(1).mul(0.5);
                return cdf.add(x.mul(x.square().mul(-0.5).exp()).mul(1 / Math.sqrt(2 * Math.PI)));
            }
            Tensor t = x.add(x.mul(x.square()).mul(CUBIC)).mul(SCALE).tanh();
            Tensor inner = x.square().mul(3 * CUBIC).add(1).mul(SCALE);
            return t.add(1).mul(0.5).add(x.mul(t.square().neg().add(1)).mul(inner).mul(0.5));
        }
    }

    /** x/(1 + |x|). (Bergstra et al., 2009) */
    record Softsign() implements Activation {
        private static final Formula FORMULA = Formula.of(
                Scalar.operand(0).div(Scalar.operand(0).abs().add(1)));

        @Override
        public Formula formula() {
            return FORMULA;
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {b.grad().div(b.in(0).abs().add(1).square())};
        }
    }

    /** Operands (y, g): g where y &gt; 0, else 0. */
    record ReluGradient() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.RELU_GRADIENT);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** Operands (y, g): g·y·(1 - y). */
    record SigmoidGradient() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SIGMOID_GRADIENT);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** Operands (y, g): g·(1 - y²). */
    record TanhGradient() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.TANH_GRADIENT);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /** Operands (x, g): g·σ(x)(1 + x(1 - σ(x))). */
    record SiluGradient() implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(Opcode.SILU_GRADIENT);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    /**
     * Operands (x, g): the gradient of {@link Gelu}.
     *
     * @param tanh as in {@link Gelu}
     */
    record GeluGradient(boolean tanh) implements Activation {
        @Override
        public Formula formula() {
            return Formula.of(tanh ? Opcode.GELU_TANH_GRADIENT : Opcode.GELU_GRADIENT);
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }
}
