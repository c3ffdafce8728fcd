package dev.starling.distributed.codec;

import java.util.Arrays;

/**
 * Makes vectors orthonormal, by Gram and Schmidt in double precision with two projections each. A function of the bits
 * of its arguments and of the seed, on any processor.
 */
final class Orthonormal {
    /** A vector of which less than this fraction is left depends on those before it. */
    private static final double DEPENDENT = 1e-6;

    private long state;

    Orthonormal(long seed) {
        state = seed;
    }

    /**
     * Replaces vectors by orthonormal ones with the same span.
     *
     * @param vectors one after the other
     * @param length of a vector
     * @param complete whether a vector that depends on those before it, or is not finite, is replaced by a random one;
     *     otherwise it becomes 0
     */
    void apply(float[] vectors, int length, boolean complete) {
        for (int at = 0; at < vectors.length; at += length) {
            boolean independent = orthogonalise(vectors, at, length);
            // Of random vectors only a few can depend on others, unless there are as many as dimensions.
            for (int attempt = 0; complete && !independent && attempt < 2 * length; attempt++) {
                for (int i = 0; i < length; i++) {
                    vectors[at + i] = random();
                }
                independent = orthogonalise(vectors, at, length);
            }
            if (!independent) {
                Arrays.fill(vectors, at, at + length, 0);
            }
        }
    }

    /** Returns whether the vector at {@code at} is independent of those before it; if so, it is orthonormal. */
    private static boolean orthogonalise(float[] vectors, int at, int length) {
        double before = norm(vectors, at, length);
        if (!(before > 0 && before < Double.POSITIVE_INFINITY)) {
            return false;
        }
        // Of length 1 first, because elements may be so small that their products vanish.
        scale(vectors, at, length, 1 / before);
        for (int pass = 0; pass < 2; pass++) {
            for (int other = 0; other < at; other += length) {
                double product = 0;
                for (int i = 0; i < length; i++) {
                    product += (double) vectors[other + i] * vectors[at + i];
                }
                for (int i = 0; i < length; i++) {
                    vectors[at + i] -= (float) (product * vectors[other + i]);
                }
            }
        }
        double left = norm(vectors, at, length);
        if (left < DEPENDENT) {
            return false;
        }
        scale(vectors, at, length, 1 / left);
        return true;
    }

    private static double norm(float[] vectors, int at, int length) {
        double squares = 0;
        for (int i = 0; i < length; i++) {
            squares += (double) vectors[at + i] * vectors[at + i];
        }
        return Math.sqrt(squares);
    }

    private static void scale(float[] vectors, int at, int length, double factor) {
        for (int i = 0; i < length; i++) {
            vectors[at + i] = (float) (vectors[at + i] * factor);
        }
    }

    /** Returns a random number from -1 to 1: a step of SplitMix64. */
    private float random() {
        state += 0x9e3779b97f4a7c15L;
        long z = (state ^ state >>> 30) * 0xbf58476d1ce4e5b9L;
        z = (z ^ z >>> 27) * 0x94d049bb133111ebL;
        return (z >> 40) / (float) (1 << 23);
    }
}
