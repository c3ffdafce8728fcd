package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;

/**
 * The floating-point operations of operations as papers count them: two for each multiply-add of a product or a
 * convolution, one for each element of any other operation that computes, none for those that only move elements.
 */
public final class Flops {
    private Flops() { }

    /**
     * Counts an operation. A causal attention counts half of its scores, which is what it needs.
     *
     * @param in specs of the operands
     * @param out specs of the results; none for an {@link Update}
     * @throws TensorException if the operation does not accept these operands, or has another number of results
     */
    public static long of(Op op, Spec[] in, Spec[] out) {
        int results = op.infer(in).length;
        if (out.length != results) {
            throw Check.argument(op, "has " + results + " results, got " + out.length,
                    "pass the specs of the operation's own operands and results", in);
        }
        return switch (op) {
            case View _, Movement _, Fill _, Transfer _, Update _ -> 0;
            case Contraction.MatMul _ -> 2 * count(out[0]) * in[0].shape().dim(-1);
            case Contraction.Linear _ -> 2 * count(out[0]) * in[1].shape().dim(1) + bias(in, out[0]);
            case Contraction.LinearInputGradient _ -> 2 * count(out[0]) * in[0].shape().dim(-1) + count(out[0]);
            case Contraction.LinearWeightGradient _ -> 2 * count(in[0]) * in[1].shape().dim(-1) + count(in[0]);
            case Convolution.Conv _ -> 2 * count(out[0]) * perPosition(in[1].shape()) + bias(in, out[0]);
            case Convolution.ConvInputGradient _ -> 2 * count(in[0]) * perPosition(in[1].shape());
            case Convolution.ConvWeightGradient g ->
                2 * count(in[1]) * perPosition(g.shape()) + (g.bias() ? count(in[1]) : 0);
            case Attention.ScaledDotProduct a -> scores(a, out[1], in[1]) * 2 * (width(in[0]) + width(in[2]));
            case Attention.ScaledDotProductGradient a ->
                scores(a, in[5], in[2]) * 2 * (3 * width(in[1]) + 2 * width(in[3]));
            case Recurrence.Forward r -> recurrence(r.operands(in), 1, 1);
            case Recurrence.Gradient r -> recurrence(r.operands(in), r.input() ? 2 : 1, 2);
            default -> {
                long largest = out.length == 0 ? 0 : count(out[0]);
                for (Spec spec : in) {
                    largest = Math.max(largest, count(spec));
                }
                yield largest;
            }
        };
    }

    private static long count(Spec spec) {
        return spec.shape().count();
    }

    private static long width(Spec spec) {
        return spec.shape().dim(-1);
    }

    private static long bias(Spec[] in, Spec out) {
        return in.length > 2 ? count(out) : 0;
    }

    private static long perPosition(Shape weight) {
        return weight.count() / Math.max(1, weight.dim(0));
    }

    /** Returns the number of scores that are computed. */
    private static long scores(Attention op, Spec logSums, Spec keys) {
        return count(logSums) * keys.shape().dim(-2) / (op.causal() ? 2 : 1);
    }

    private static long recurrence(Recurrence.Operands<Spec> o, long inputProducts, long recurrentProducts) {
        long rows = o.x().shape().dim(0) * o.x().shape().dim(1);
        return 2 * rows * (inputProducts * count(o.weight()) + recurrentProducts * count(o.recurrentWeight()));
    }
}
