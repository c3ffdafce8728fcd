package dev.starling.tensor.fuzz;

import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * The numbers that determine a case, each from 0 to a bound; 0 is the simplest. They are recorded, so that
 * {@link Shrinker} can draw a simpler case from fewer and smaller ones.
 */
final class Choices {
    private final SplittableRandom random;
    private final int[] given;
    private int[] drawn = new int[64];
    private int count;
    /** Whether arguments are drawn that operations may refuse. */
    boolean wild;

    private Choices(SplittableRandom random, int[] given) {
        this.random = random;
        this.given = given;
    }

    /** Returns the choices of a seed. */
    static Choices seeded(long seed) {
        return new Choices(new SplittableRandom(seed), null);
    }

    /** Returns the given choices, followed by zeros. */
    static Choices of(int... given) {
        return new Choices(null, given);
    }

    /** Returns a number from 0 to {@code bound - 1}. */
    int next(int bound) {
        int value = random != null ? random.nextInt(bound)
                : count < given.length ? Math.min(given[count], bound - 1) : 0;
        if (count == drawn.length) {
            drawn = Arrays.copyOf(drawn, 2 * count);
        }
        drawn[count++] = value;
        return value;
    }

    /** Returns true once in {@code n} times; false is the simpler outcome. */
    boolean oneIn(int n) {
        return next(n) == n - 1;
    }

    /** Returns one of the values; the first is the simplest. */
    @SafeVarargs
    final <T> T of(T... values) {
        return values[next(values.length)];
    }

    /** Returns one of the numbers; the first is the simplest. */
    int ofInts(int... values) {
        return values[next(values.length)];
    }

    /** Returns one of the numbers; the first is the simplest. */
    double ofReals(double... values) {
        return values[next(values.length)];
    }

    /** In wild cases returns, one time in four, an extreme number in place of {@code legal}. */
    int integer(int legal) {
        return wild && oneIn(4) ? ofInts(0, -1, 1, 2, -2, 7, 100, Integer.MAX_VALUE, Integer.MIN_VALUE, 1 << 30, 65_537)
                : legal;
    }

    /** In wild cases returns, one time in four, an extreme number in place of {@code legal}. */
    long whole(long legal) {
        return wild && oneIn(4) ? of(0L, -1L, 1L, 2L, -2L, 7L, 100L, (long) Integer.MAX_VALUE, 1L << 31, Long.MAX_VALUE,
                Long.MIN_VALUE, 1L << 62, -(1L << 62), 1L << 40, Long.MIN_VALUE + 1) : legal;
    }

    /**
     * In wild cases returns, one time in four, an extreme number in place of {@code legal}. No number is beyond f32, to
     * which numbers are converted beside tensors of 32 and 16 bits.
     */
    double real(double legal) {
        return wild && oneIn(4) ? ofReals(0, -1, 1, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
                Float.MAX_VALUE, -Float.MAX_VALUE, Float.MIN_NORMAL, -0.0, 1e30, 1e-30, 1e10) : legal;
    }

    /** Returns an axis of {@code rank} dimensions, counted from either end; in wild cases also one out of range. */
    int axis(int rank) {
        if (wild && oneIn(4)) {
            return ofInts(rank, -rank - 1, 31, 32, 33, Integer.MAX_VALUE, Integer.MIN_VALUE);
        }
        if (rank == 0) {
            return next(2) - 1;
        }
        int axis = next(rank);
        return oneIn(3) ? axis - rank : axis;
    }

    /** Returns the choices made so far. */
    int[] drawn() {
        return Arrays.copyOf(drawn, count);
    }
}
