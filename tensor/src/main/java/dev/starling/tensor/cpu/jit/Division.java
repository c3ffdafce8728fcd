package dev.starling.tensor.cpu.jit;

/**
 * Divisions of integers, by 0 with the result 0, and floor division and its remainder as in NumPy and Python.
 */
final class Division {
    private Division() { }

    static int divide(int a, int b) {
        return b == 0 ? 0 : a / b;
    }

    static long divide(long a, long b) {
        return b == 0 ? 0 : a / b;
    }

    static int floorDivide(int a, int b) {
        return b == 0 ? 0 : Math.floorDiv(a, b);
    }

    static long floorDivide(long a, long b) {
        return b == 0 ? 0 : Math.floorDiv(a, b);
    }

    static int remainder(int a, int b) {
        return b == 0 ? 0 : Math.floorMod(a, b);
    }

    static long remainder(long a, long b) {
        return b == 0 ? 0 : Math.floorMod(a, b);
    }

    static float remainder(float a, float b) {
        return (float) remainder((double) a, (double) b);
    }

    static double remainder(double a, double b) {
        double r = a % b;
        if (r == 0) {
            return Math.copySign(r, b);
        }
        return r < 0 != b < 0 ? r + b : r;
    }

    static float floorDivide(float a, float b) {
        return (float) floorDivide((double) a, (double) b);
    }

    /**
     * The quotient is computed of {@code a} without the rest, which is a multiple of {@code b} or close to it, rather
     * than as the floor of a rounded quotient.
     */
    static double floorDivide(double a, double b) {
        if (b == 0) {
            return a / b;
        }
        double rest = a % b;
        double quotient = Math.rint((a - rest) / b);
        quotient = rest != 0 && rest < 0 != b < 0 ? quotient - 1 : quotient;
        return quotient == 0 ? Math.copySign(0, a / b) : quotient;
    }
}
