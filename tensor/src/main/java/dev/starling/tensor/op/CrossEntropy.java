package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Cross-entropy between the softmax of logits and class indices. 16-bit logits are computed in f32: losses and the
 * values kept for each row are f32, so that no f32 copy of the logits is needed.
 */
public sealed interface CrossEntropy extends Op {
    /**
     * Operands {@code (logits [N, C], target i64 [N])} give {@code (loss [N], row [N, 2])} with
     * {@code loss = -Σ q·log p}, where {@code q} is {@code 1 - smoothing} on the target plus {@code smoothing/C} on
     * every class. A row whose target is {@code ignored} has loss and gradient 0. For each row its maximum logit and
     * the logarithm of {@code Σ exp(logit - maximum)} are kept: {@code log p = logit - maximum - logarithm}. Both are
     * NaN in a row without a softmax. (Szegedy et al., 2015)
     *
     * @param smoothing between 0 and 1
     * @param ignored a target to leave out, for example -100
     */
    record Loss(double smoothing, long ignored) implements CrossEntropy {
        @Override
        public String name() {
            return "crossEntropy";
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            check(this, smoothing, in);
            Check.floating(this, in[0]);
            Check.rank(this, in[0], 2, in);
            Check.counted(this, "a row", in[0].shape().dim(1), in);
            Check.index(this, in[1], in);
            if (!in[1].shape().equals(Shape.of(in[0].shape().dim(0)))) {
                throw Check.shape(this, "targets must be [" + in[0].shape().dim(0) + "], one class per row",
                        "use class indices, not one-hot rows", in);
            }
            Spec losses = in[0].with(in[1].shape()).with(wide(in[0].dtype()));
            return new Spec[] {losses, losses.with(Shape.of(in[0].shape().dim(0), 2))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            if (!b.recorded() && b.gradients()[1] == null) {
                return new Tensor[] {Tensor.compute(new Gradient(smoothing, ignored), b.grad(), b.in(0), b.out(1),
                        b.in(1)),
                    null};
            }
            Tensor logits = b.in(0).to(b.out(0).dtype());
            long classes = logits.size(1);
            Tensor kept = b.in(1).ne(ignored);
            Tensor safe = Where.select(kept, b.in(1), null);
            Tensor q = safe.oneHot(classes).to(logits.dtype()).mul(1 - smoothing).add(smoothing / classes);
            Tensor g = b.grad().mul(kept.to(logits.dtype())).unsqueeze(1);
            Tensor p = logits.softmax(1);
            Tensor dx = p.sub(q).mul(g);
            if (b.gradients()[1] != null) {
                Tensor ofGreatest = b.gradients()[1].narrow(1, 0, 1);
                Tensor ofLogarithm = b.gradients()[1].narrow(1, 1, 1);
                Tensor max = logits.argmax(1).oneHot(classes).to(logits.dtype());
                dx = dx.add(p.mul(ofLogarithm)).add(max.mul(ofGreatest.sub(ofLogarithm)));
            }
            return new Tensor[] {dx.to(b.in(0).dtype()), null};
        }
    }

    /**
     * Operands {@code (g [N], logits [N, C], row [N, 2], target [N])}, where {@code row} is the second result of
     * {@link Loss}, give (p - q)·g, of the shape and type of the logits.
     *
     * @param smoothing as in {@link Loss}
     * @param ignored as in {@link Loss}
     */
    record Gradient(double smoothing, long ignored) implements CrossEntropy, GradientKernel {
        @Override
        public String name() {
            return "crossEntropyGradient";
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 4, 4);
            check(this, smoothing, in);
            Check.floating(this, in[0], in[1], in[2]);
            Check.rank(this, in[1], 2, in);
            Check.counted(this, "a row", in[1].shape().dim(1), in);
            Check.index(this, in[3], in);
            DType wide = wide(in[1].dtype());
            if (in[0].dtype() != wide || in[2].dtype() != wide) {
                throw Check.argument(this, "g and row must be " + wide + " beside logits of " + in[1].dtype(),
                        "cast with to(DType)", in);
            }
            Shape rows = Shape.of(in[1].shape().dim(0));
            if (!in[0].shape().equals(rows) || !in[3].shape().equals(rows)
                    || !in[2].shape().equals(Shape.of(rows.dim(0), 2))) {
                throw Check.shape(this, "g and target must be " + rows + " and row [" + rows.dim(0) + ", 2]",
                        "pass the operands and results of the loss", in);
            }
            return new Spec[] {in[1]};
        }
    }

    private static void check(Op op, double smoothing, Spec... in) {
        if (!(smoothing >= 0 && smoothing <= 1)) {
            throw Check.argument(op, "0 <= smoothing <= 1 must hold, got " + smoothing, "change the smoothing", in);
        }
    }

    private static DType wide(DType type) {
        return type.bytes() == 2 ? DType.F32 : type;
    }
}
