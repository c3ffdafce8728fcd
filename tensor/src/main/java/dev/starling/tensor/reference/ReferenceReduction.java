package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;

/** Folds each run of elements into one. */
final class ReferenceReduction {
    private ReferenceReduction() {
    }

    static void run(Reduction op, Tensor x, Tensor y) {
        long extent = op.axes().extent(x.shape());
        Elements from = Elements.of(x).permuted(foldedLast(op.axes(), x.rank()));
        Elements to = Elements.of(y);
        for (long i = 0; i < y.count(); i++) {
            long first = i * extent;
            switch (op) {
                case Reduction.Mean o -> to.set(i, sum(from, first, extent) / extent);
                case Reduction.Sum o when from.floating() -> to.set(i, sum(from, first, extent));
                case Reduction.Sum o -> to.setLong(i, sumOfIntegers(from, first, extent));
                case Reduction.Prod o when from.floating() -> to.set(i, product(from, first, extent));
                case Reduction.Prod o -> to.setLong(i, productOfIntegers(from, first, extent));
                case Reduction.Max o -> to.copy(i, from, first + extreme(from, first, extent, true));
                case Reduction.Min o -> to.copy(i, from, first + extreme(from, first, extent, false));
                case Reduction.ArgMax o -> to.setLong(i, extreme(from, first, extent, true));
                case Reduction.ArgMin o -> to.setLong(i, extreme(from, first, extent, false));
                case Reduction.Any o -> to.setLong(i, nonzero(from, first, extent) > 0 ? 1 : 0);
                case Reduction.All o -> to.setLong(i, nonzero(from, first, extent) == extent ? 1 : 0);
            }
        }
    }

    /** The order of dimensions in which those to fold come last, and so each output's elements form a run. */
    private static int[] foldedLast(Axes axes, int rank) {
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

    private static double sum(Elements x, long first, long extent) {
        double sum = 0;
        for (long j = first; j < first + extent; j++) {
            sum += x.get(j);
        }
        return sum;
    }

    private static long sumOfIntegers(Elements x, long first, long extent) {
        long sum = 0;
        for (long j = first; j < first + extent; j++) {
            sum += x.getLong(j);
        }
        return sum;
    }

    private static double product(Elements x, long first, long extent) {
        double product = 1;
        for (long j = first; j < first + extent; j++) {
            product *= x.get(j);
        }
        return product;
    }

    private static long productOfIntegers(Elements x, long first, long extent) {
        long product = 1;
        for (long j = first; j < first + extent; j++) {
            product *= x.getLong(j);
        }
        return product;
    }

    private static long nonzero(Elements x, long first, long extent) {
        long n = 0;
        for (long j = first; j < first + extent; j++) {
            n += (x.floating() ? x.get(j) != 0 : x.getLong(j) != 0) ? 1 : 0;
        }
        return n;
    }

    /** Returns which of the run is the first greatest or least, or the first NaN. */
    static long extreme(Elements x, long first, long extent, boolean greatest) {
        long best = 0;
        for (long j = 1; j < extent; j++) {
            if (beats(x, first + j, first + best, greatest)) {
                best = j;
            }
        }
        return best;
    }

    /** Tells whether element {@code i} replaces {@code best}: it is greater or less, or the first NaN. */
    static boolean beats(Elements x, long i, long best, boolean greatest) {
        if (!x.floating()) {
            return greatest ? x.getLong(i) > x.getLong(best) : x.getLong(i) < x.getLong(best);
        }
        double a = x.get(i);
        double b = x.get(best);
        return !Double.isNaN(b) && (Double.isNaN(a) || (greatest ? a > b : a < b));
    }
}
