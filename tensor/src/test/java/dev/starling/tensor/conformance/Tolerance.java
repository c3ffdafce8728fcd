package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;

/**
 * The maximum distance of a floating result from the reference: {@code ε·(relative·|expected| + absolute)}, where ε is
 * the
 * type's distance from 1 to the next number. NaN equals NaN only, an infinity only itself. Integers are always exact.
 *
 * @param relative in units of ε; at most 2 for 16-bit types
 * @param absolute in units of ε
 */
record Tolerance(double relative, double absolute) {
    /** The same bits, except the payload of NaN. */
    static final Tolerance BITS = new Tolerance(-1, 0);
    /** The same number; the sign of a zero may differ. */
    static final Tolerance EXACT = new Tolerance(0, 0);
    /** The tolerance of a good elementwise kernel. */
    static final Tolerance CLOSE = new Tolerance(16, 0);

    /** The tolerance of a sum of {@code n} summands of magnitude 1, in any order. */
    static Tolerance sum(long n) {
        return new Tolerance(16, 8 * Math.sqrt(Math.max(n, 1)));
    }

    /** This tolerance with allowance for a cancellation of numbers of {@code magnitude}. */
    Tolerance cancelling(double magnitude) {
        return new Tolerance(relative, absolute + 4 * magnitude);
    }

    /** The tolerance of gradients, which take several operations. */
    Tolerance ofGradient() {
        return new Tolerance(Math.max(relative, 1) * 4, absolute * 4 + 8);
    }

    /** Returns ε. */
    static double epsilon(DType dtype) {
        return switch (dtype) {
            case F64 -> 0x1p-52;
            case F32 -> 0x1p-23;
            case F16 -> 0x1p-10;
            case BF16 -> 0x1p-7;
            case I64, I32, I8, U8, BOOL -> 0;
        };
    }

    /** Returns the first difference in words, or {@code null} if there is none. */
    String difference(Tensor actual, Tensor expected) {
        if (actual.dtype() != expected.dtype() || !actual.shape().equals(expected.shape())) {
            return "is " + actual.spec() + " instead of " + expected.spec();
        }
        return expected.dtype().isFloating() ? differenceOfReals(actual, expected)
                : differenceOfIntegers(actual, expected);
    }

    private String differenceOfReals(Tensor actual, Tensor expected) {
        double[] a = actual.toDoubles();
        double[] e = expected.toDoubles();
        double epsilon = epsilon(expected.dtype());
        int wrong = 0;
        String first = null;
        for (int i = 0; i < e.length; i++) {
            if (!accepts(a[i], e[i], epsilon)) {
                wrong++;
                first = first == null ? "[" + i + "] is " + a[i] + " instead of " + e[i] : first;
            }
        }
        return first == null ? null : first + " (" + wrong + " of " + e.length + " differ)";
    }

    private boolean accepts(double actual, double expected, double epsilon) {
        if (relative < 0) {
            return Double.doubleToLongBits(actual) == Double.doubleToLongBits(expected);
        }
        if (actual == expected || Double.isNaN(actual) && Double.isNaN(expected)) {
            return true;
        }
        double r = epsilon > 0x1p-20 ? Math.min(relative, 2 * Math.max(1, relative / 16)) : relative;
        // Kernels may flush denormal numbers to zero, except those of f16, the smallest of which is 2^-24.
        double smallest = epsilon == 0x1p-52 ? Double.MIN_NORMAL : epsilon == 0x1p-10 ? 0x1p-24 : Float.MIN_NORMAL;
        return Double.isFinite(expected)
                && Math.abs(actual - expected) <= epsilon * (r * Math.abs(expected) + absolute)
                + (r > 0 ? 2 * smallest : 0);
    }

    private static String differenceOfIntegers(Tensor actual, Tensor expected) {
        long[] a = actual.toLongs();
        long[] e = expected.toLongs();
        for (int i = 0; i < e.length; i++) {
            if (a[i] != e[i]) {
                return "[" + i + "] is " + a[i] + " instead of " + e[i];
            }
        }
        return null;
    }
}
