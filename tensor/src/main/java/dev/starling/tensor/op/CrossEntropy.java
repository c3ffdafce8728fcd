package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Cross-entropy between the softmax of logits and class indices. */
public sealed interface CrossEntropy extends Op {
    /**
     * Operands {@code (logits [N, C], target i64 [N])} give {@code (loss [N], log-probabilities [N, C])} with
     * {@code loss = -Σ q·log p}, where {@code q} is {@code 1 - smoothing} on the target plus {@code smoothing/C} on
     * every class. A row whose target is {@code ignored} has loss and gradient 0. (Szegedy et al., 2015)
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
            Check.index(this, in[1], in);
            Check.shape(in[1].shape().equals(Shape.of(in[0].shape().dim(0))), this,
                    () -> "targets must be [" + in[0].shape().dim(0) + "], one class a row",
                    "use class indices, not one-hot rows",
                    in);
            return new Spec[] {in[0].with(in[1].shape()), in[0]};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor logProbabilities = b.out(1);
            if (b.recorded()) {
                logProbabilities = b.in(0).logSoftmax(1);
            } else if (b.gradients()[1] == null) {
                return new Tensor[] {Tensor.compute(new Gradient(smoothing, ignored), b.grad(), logProbabilities,
                        b.in(1)),
                    null};
            }
            long classes = b.in(0).size(1);
            Tensor kept = b.in(1).ne(ignored);
            Tensor safe = Where.select(kept, b.in(1), null);
            Tensor q = safe.oneHot(classes).to(b.in(0).dtype()).mul(1 - smoothing).add(smoothing / classes);
            Tensor g = b.grad().mul(kept.to(b.in(0).dtype())).unsqueeze(1);
            Tensor dx = logProbabilities.exp().sub(q).mul(g);
            if (b.gradients()[1] != null) {
                Tensor h = b.gradients()[1];
                dx = dx.add(h.sub(logProbabilities.exp().mul(h.sum(true, 1))));
            }
            return new Tensor[] {dx, null};
        }
    }

    /**
     * Operands {@code (g [N], log-probabilities [N, C], target)}: (p - q)·g.
     *
     * @param smoothing as in {@link Loss}
     * @param ignored as in {@link Loss}
     */
    record Gradient(double smoothing, long ignored) implements CrossEntropy {
        @Override
        public String name() {
            return "crossEntropyGradient";
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 3, 3);
            Check.floating(this, in[0], in[1]);
            check(this, smoothing, in);
            Check.sameType(this, in[0], in[1]);
            Check.rank(this, in[1], 2, in);
            Check.index(this, in[2], in);
            Shape rows = Shape.of(in[1].shape().dim(0));
            Check.shape(in[0].shape().equals(rows) && in[2].shape().equals(rows), this,
                    () -> "g and targets must be " + rows, "pass the gradient of the loss, and its targets", in);
            return new Spec[] {in[1]};
        }

        @Override
        public boolean differentiable() {
            return false;
        }
    }

    private static void check(Op op, double smoothing, Spec... in) {
        Check.argument(smoothing >= 0 && smoothing <= 1, op,
                () -> "0 <= smoothing <= 1 must hold, got " + smoothing, "change smoothing", in);
    }
}
