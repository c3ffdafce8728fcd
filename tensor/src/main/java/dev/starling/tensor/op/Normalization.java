package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Normalisation to mean 0 and variance 1, then a scale and shift by learned values. These and the statistics have x's
 * type or, beside a 16-bit x, f32.
 */
public sealed interface Normalization extends Op {
    /**
     * Batch normalisation with the batch's statistics: operands {@code (x [N, C, ..], gamma [C], beta [C])} give
     * {@code (y, mean [C], deviation⁻¹ [C])}, with {@code deviation = √(variance + epsilon)} and the biased variance;
     * NaN and infinity pass through. (Ioffe and Szegedy, 2015)
     *
     * @param epsilon added to the variance
     * @param epilogue applied to {@code y}
     */
    record BatchNorm(double epsilon, Epilogue epilogue) implements Normalization {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 3, 3);
            Check.epsilon(this, epsilon, in);
            epilogue.requireNoGelu(this);
            Check.floating(this, in);
            Check.wideOr(this, in[0], in[1], in);
            Check.sameType(this, in[1], in[2]);
            Check.shape(in[0].shape().rank() >= 2, this, "needs [N, C, ..]", "unsqueeze x", in);
            Shape c = Shape.of(in[0].shape().dim(1));
            Check.counted(this, "gamma", c.count(), in);
            if (!in[1].shape().equals(c) || !in[2].shape().equals(c)) {
                throw Check.shape(this, "gamma and beta must be " + c, "give one value for each channel", in);
            }
            Check.shape(c.count() == 0 || in[0].shape().count() > c.count(), this,
                    "needs more than one value per channel", "use a larger batch; if only "
                    + "the last batch of an epoch is too small, leave it out with dropLast() of the data loader", in);
            return new Spec[] {in[0], in[1], in[1]};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            if (b.gradients()[1] == null && b.gradients()[2] == null) {
                return throughResult(b);
            }
            Tensor[] own = b.gradients()[0] == null ? null : throughResult(b);
            Tensor dx = b.needs(0) ? throughStatistics(b) : null;
            return own == null ? new Tensor[] {dx, b.in(1).zerosLike(), b.in(2).zerosLike()}
                    : new Tensor[] {dx == null ? own[0] : own[0].add(dx), own[1], own[2]};
        }

        /** Returns the part of x's gradient that arrives through the mean and the deviation. */
        private static Tensor throughStatistics(Backward b) {
            Tensor x = b.in(0).to(b.in(1).dtype());
            Shape channels = channels(x);
            double n = (double) x.count() / x.size(1);
            // In f16, n could be infinite.
            Tensor dx = b.grad(1).mul(1 / n).reshape(channels).expand(x.shape());
            if (b.gradients()[2] != null) {
                Tensor inverse = b.out(2);
                Tensor slope = b.grad(2).mul(inverse).mul(-1 / n).mul(inverse).reshape(channels);
                Tensor normal = x.sub(b.out(1).reshape(channels)).mul(inverse.reshape(channels));
                dx = dx.add(normal.mul(slope));
            }
            return dx.to(b.in(0).dtype());
        }

        private Tensor[] throughResult(Backward b) {
            if (!b.recorded()) {
                return Tensor.apply(new BatchNormGradient(epilogue), b.grad(), b.in(0), b.in(1), b.out(0), b.out(1),
                        b.out(2));
            }
            Tensor x = b.in(0).to(b.in(1).dtype());
            int[] rest = others(x.rank());
            Tensor mean = x.mean(true, rest);
            Tensor inverse = x.sub(mean).square().mean(true, rest).add(epsilon).rsqrt();
            Tensor normal = x.sub(mean).mul(inverse);
            Tensor g = epilogue.gradient(b, b.out(0)).to(x.dtype());
            Tensor gg = g.mul(b.in(1).reshape(channels(x)));
            Tensor dx = gg.sub(gg.mean(true, rest)).sub(normal.mul(gg.mul(normal).mean(true, rest))).mul(inverse);
            return new Tensor[] {dx.to(b.in(0).dtype()), g.mul(normal).sum(false, rest), g.sum(false, rest)};
        }

        private static int[] others(int rank) {
            int[] axes = new int[rank - 1];
            for (int i = 1; i < axes.length; i++) {
                axes[i] = i + 1;
            }
            return axes;
        }

        private static Shape channels(Tensor x) {
            long[] dims = new long[x.rank()];
            java.util.Arrays.fill(dims, 1);
            dims[1] = x.size(1);
            return Shape.of(dims);
        }
    }

    /**
     * Operands {@code (g, x, gamma, y, mean, deviation⁻¹)} give the gradients of {@code (x, gamma, beta)}.
     *
     * @param epilogue of the {@link BatchNorm}
     */
    record BatchNormGradient(Epilogue epilogue) implements Normalization, GradientKernel {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 6, 6);
            epilogue.requireNoGelu(this);
            Check.floating(this, in);
            Check.wideOr(this, in[1], in[2], in);
            Check.sameType(this, in[0], in[1], in[3]);
            Check.sameType(this, in[2], in[4], in[5]);
            Shape x = in[1].shape();
            Check.shape(in[0].shape().equals(x) && in[3].shape().equals(x), this, "g, x and y must have the same shape",
                    "pass the gradient of y", in);
            Check.shape(x.rank() >= 2, this, "needs [N, C, ..]", "unsqueeze x", in);
            Shape c = Shape.of(x.dim(1));
            Check.counted(this, "gamma", c.count(), in);
            if (!in[2].shape().equals(c) || !in[4].shape().equals(c) || !in[5].shape().equals(c)) {
                throw Check.shape(this, "gamma, mean and deviation must be " + c,
                        "pass the operands and results of batchNorm", in);
            }
            return new Spec[] {in[1], in[2], in[2]};
        }
    }

    /**
     * Layer normalisation over the trailing dimensions: operands {@code (x [.., *d], gamma [*d], beta [*d])} give
     * {@code (y, mean [..], deviation⁻¹ [..])}. (Ba, Kiros and Hinton, 2016)
     *
     * @param epsilon added to the variance
     */
    record LayerNorm(double epsilon) implements Normalization {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 3, 3);
            Check.epsilon(this, epsilon, in);
            Check.floating(this, in);
            Check.wideOr(this, in[0], in[1], in);
            Check.sameType(this, in[1], in[2]);
            Shape x = in[0].shape();
            Shape d = in[1].shape();
            Check.counted(this, "gamma", d.count(), in);
            Check.shape(trails(d, x) && in[2].shape().equals(d), this,
                    "gamma and beta must have the trailing sizes of x",
                    "give one value for each normalised element", in);
            Spec statistics = in[1].with(x.slice(0, x.rank() - d.rank()));
            return new Spec[] {in[0], statistics, statistics};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            if (!b.recorded()) {
                return Tensor.apply(new LayerNormGradient(), b.grad(), b.in(0), b.in(1), b.out(1), b.out(2));
            }
            Tensor x = b.in(0).to(b.in(1).dtype());
            int lead = x.rank() - b.in(1).rank();
            int[] inner = new int[b.in(1).rank()];
            java.util.Arrays.setAll(inner, i -> lead + i);
            Tensor centred = x.sub(x.mean(true, inner));
            Tensor inverse = centred.square().mean(true, inner).add(epsilon).rsqrt();
            Tensor normal = centred.mul(inverse);
            Tensor g = b.grad().to(x.dtype());
            Tensor gg = g.mul(b.in(1));
            Tensor dx = gg.sub(gg.mean(true, inner)).sub(normal.mul(gg.mul(normal).mean(true, inner))).mul(inverse);
            return new Tensor[] {dx.to(b.in(0).dtype()), g.mul(normal).sumTo(b.in(1).shape()),
                g.sumTo(b.in(2).shape())};
        }
    }

    /** Operands {@code (g, x, gamma, mean, deviation⁻¹)} give the gradients of {@code (x, gamma, beta)}. */
    record LayerNormGradient() implements Normalization, GradientKernel {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 5, 5);
            Check.floating(this, in);
            Check.wideOr(this, in[1], in[2], in);
            Check.sameType(this, in[0], in[1]);
            Check.sameType(this, in[2], in[3], in[4]);
            Shape x = in[1].shape();
            Shape d = in[2].shape();
            Check.shape(in[0].shape().equals(x), this, "g and x must have the same shape",
                    "pass the gradient of y", in);
            Check.shape(trails(d, x), this, "gamma must have the trailing sizes of x",
                    "pass the operands of layerNorm", in);
            Check.counted(this, "gamma", d.count(), in);
            Shape lead = x.slice(0, x.rank() - d.rank());
            if (!in[3].shape().equals(lead) || !in[4].shape().equals(lead)) {
                throw Check.shape(this, "mean and deviation must be " + lead, "pass the results of layerNorm", in);
            }
            return new Spec[] {in[1], in[2], in[2]};
        }
    }

    /** Returns whether {@code x} ends with the one or more sizes {@code d}. */
    private static boolean trails(Shape d, Shape x) {
        return d.rank() >= 1 && d.rank() <= x.rank() && x.slice(x.rank() - d.rank(), x.rank()).equals(d);
    }
}
