package dev.starling.tensor.reference;

import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Softmax;

/** Softmax along a dimension, and cross-entropy over the rows of a matrix. */
final class ReferenceSoftmax {
    private ReferenceSoftmax() {
    }

    static void run(Softmax op, Tensor[] in, Tensor out) {
        Elements a = Elements.of(in[0], out.shape()).alongLast(op.axis());
        Elements b = in.length == 2 ? Elements.of(in[1], out.shape()).alongLast(op.axis()) : a;
        Elements y = Elements.of(out).alongLast(op.axis());
        int size = Math.toIntExact(out.size(op.axis()));
        for (long line = 0; line < out.count(); line += size) {
            double max = 0;
            double logSum = 0;
            double dot = 0;
            double sum = 0;
            switch (op) {
                case Softmax.Exponentials _, Softmax.Logarithms _ -> {
                    max = max(a, line, size);
                    logSum = logSum(a, line, size, max);
                }
                case Softmax.ExponentialsGradient o -> dot = dot(a, b, line, size);
                case Softmax.LogarithmsGradient o -> sum = ReferenceReduction.sum(b, line, size);
            }
            for (long i = line; i < line + size; i++) {
                y.set(i, switch (op) {
                    case Softmax.Exponentials o -> StrictMath.exp(a.get(i) - max - logSum);
                    case Softmax.Logarithms o -> a.get(i) - max - logSum;
                    case Softmax.ExponentialsGradient o -> a.get(i) * (b.get(i) - dot);
                    case Softmax.LogarithmsGradient o -> b.get(i) - StrictMath.exp(a.get(i)) * sum;
                });
            }
        }
    }

    static void run(CrossEntropy op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case CrossEntropy.Loss o -> loss(o, in[0], in[1], out[0], out[1]);
            case CrossEntropy.Gradient o -> gradient(o, in, out[0]);
        }
    }

    private static double max(Elements x, long line, int size) {
        double max = Double.NEGATIVE_INFINITY;
        for (long i = line; i < line + size; i++) {
            max = Math.max(max, x.get(i));
        }
        return max;
    }

    /**
     * Returns the logarithm of the sum of exponentials, relative to the maximum; added to the maximum it would lose
     * digits.
     */
    private static double logSum(Elements x, long line, int size, double max) {
        double sum = 0;
        for (long i = line; i < line + size; i++) {
            sum += StrictMath.exp(x.get(i) - max);
        }
        return StrictMath.log(sum);
    }

    private static double dot(Elements y, Elements g, long line, int size) {
        double dot = 0;
        for (long i = line; i < line + size; i++) {
            dot += y.get(i) * g.get(i);
        }
        return dot;
    }

    private static void loss(CrossEntropy.Loss op, Tensor logits, Tensor target, Tensor loss, Tensor row) {
        Elements x = Elements.of(logits);
        Elements classes = Elements.of(target);
        Elements losses = Elements.of(loss);
        Elements kept = Elements.of(row);
        int size = Math.toIntExact(logits.size(1));
        for (long r = 0; r < target.count(); r++) {
            boolean ignored = op.ignored() != Losses.NONE_IGNORED && classes.getLong(r) == op.ignored();
            long wanted = ignored ? -1 : checked(op, classes.getLong(r), size, r, logits, target);
            double max = max(x, r * size, size);
            double logSum = logSum(x, r * size, size, max);
            double sum = 0;
            for (int c = 0; c < size; c++) {
                double q = share(op.smoothing(), size, c == wanted);
                sum -= q == 0 ? 0 : q * (x.get(r * size + c) - max - logSum);
            }
            losses.set(r, ignored ? 0 : sum);
            kept.set(2 * r, Double.isNaN(logSum) ? Double.NaN : max);
            kept.set(2 * r + 1, logSum);
        }
    }

    private static void gradient(CrossEntropy.Gradient op, Tensor[] in, Tensor out) {
        Elements gradients = Elements.of(in[0]);
        Elements x = Elements.of(in[1]);
        Elements kept = Elements.of(in[2]);
        Elements classes = Elements.of(in[3]);
        Elements y = Elements.of(out);
        int size = Math.toIntExact(out.size(1));
        for (long r = 0; r < in[3].count(); r++) {
            boolean ignored = op.ignored() != Losses.NONE_IGNORED && classes.getLong(r) == op.ignored();
            long wanted = ignored ? -1 : checked(op, classes.getLong(r), size, r, in);
            for (int c = 0; c < size; c++) {
                double q = share(op.smoothing(), size, c == wanted);
                double p = StrictMath.exp(x.get(r * size + c) - kept.get(2 * r) - kept.get(2 * r + 1));
                y.set(r * size + c, ignored ? 0 : (p - q) * gradients.get(r));
            }
        }
    }

    /** Returns the probability q that smoothed targets give to a class. */
    private static double share(double smoothing, int classes, boolean wanted) {
        return smoothing / classes + (wanted ? 1 - smoothing : 0);
    }

    private static long checked(Op op, long wanted, int classes, long row, Tensor... operands) {
        if (wanted < 0 || wanted >= classes) {
            throw ReferenceSelection.outOfRange(op, wanted, row, 0, classes - 1, operands);
        }
        return wanted;
    }
}
