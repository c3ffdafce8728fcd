package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;
import java.util.function.DoubleBinaryOperator;
import java.util.function.LongBinaryOperator;

/** Reduces each line of elements to one. */
final class ReferenceReduction {
    private ReferenceReduction() {
    }

    static void run(Reduction op, Tensor x, Tensor y) {
        long extent = op.axes().extent(x.shape());
        Elements from = Elements.of(x).permuted(reducedLast(op.axes(), x.rank()));
        Elements to = Elements.of(y);
        for (long i = 0; i < y.count(); i++) {
            long first = i * extent;
            switch (op) {
                case Reduction.Mean o -> to.set(i, sum(from, first, extent) / extent);
                case Reduction.Sum o when from.floating() -> to.set(i, sum(from, first, extent));
                case Reduction.Sum o -> to.setLong(i, foldIntegers(from, first, extent, 0, Long::sum));
                case Reduction.Prod o when from.floating() -> to.set(i, fold(from, first, extent, 1, (a, b) -> a * b));
                case Reduction.Prod o -> to.setLong(i, foldIntegers(from, first, extent, 1, (a, b) -> a * b));
                case Reduction.Max o -> to.copy(i, from, first + extreme(from, first, extent, true));
                case Reduction.Min o -> to.copy(i, from, first + extreme(from, first, extent, false));
                case Reduction.ArgMax o -> to.setLong(i, extreme(from, first, extent, true));
                case Reduction.ArgMin o -> to.setLong(i, extreme(from, first, extent, false));
                case Reduction.Any o -> to.setLong(i, nonzero(from, first, extent) > 0 ? 1 : 0);
                case Reduction.All o -> to.setLong(i, nonzero(from, first, extent) == extent ? 1 : 0);
            }
        }
    }

    /**
     * Returns the order of dimensions with the reduced ones last, so that the elements of each output are consecutive.
     */
    private static int[] reducedLast(Axes axes, int rank) {
        int[] order = new int[rank];
        int n = 0;
        for (int i = 0; i < rank; i++) {
            if (!axes.contains(i)) {
                order[n++] = i;
            }
        }
        for (int i = 0; i < rank; i++) {
            if (axes.contains(i)) {
                order[n++] = i;
            }
        }
        return order;
    }

    /** Returns the sum of consecutive elements, in order. */
    static double sum(Elements x, long first, long extent) {
        return fold(x, first, extent, 0, Double::sum);
    }

    private static double fold(Elements x, long first, long extent, double identity, DoubleBinaryOperator operator) {
        double result = identity;
        for (long j = first; j < first + extent; j++) {
            result = operator.applyAsDouble(result, x.get(j));
        }
        return result;
    }

    private static long foldIntegers(Elements x, long first, long extent, long identity, LongBinaryOperator operator) {
        long result = identity;
        for (long j = first; j < first + extent; j++) {
            result = operator.applyAsLong(result, x.getLong(j));
        }
        return result;
    }

    private static long nonzero(Elements x, long first, long extent) {
        long n = 0;
        for (long j = first; j < first + extent; j++) {
            n += (x.floating() ? x.get(j) != 0 : x.getLong(j) != 0) ? 1 : 0;
        }
        return n;
    }

    /** Returns the position of the line's first maximum or minimum, or of the first NaN. */
    static long extreme(Elements x, long first, long extent, boolean max) {
        long best = 0;
        for (long j = 1; j < extent; j++) {
            if (beats(x, first + j, first + best, max)) {
                best = j;
            }
        }
        return best;
    }

    /** Returns whether element {@code i} replaces {@code best}: it is larger or smaller, or the first NaN. */
    static boolean beats(Elements x, long i, long best, boolean max) {
        if (!x.floating()) {
            return max ? x.getLong(i) > x.getLong(best) : x.getLong(i) < x.getLong(best);
        }
        double a = x.get(i);
        double b = x.get(best);
        return !Double.isNaN(b) && (Double.isNaN(a) || (max ? a > b : a < b));
    }
}
