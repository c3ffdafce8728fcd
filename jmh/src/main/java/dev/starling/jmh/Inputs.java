package dev.starling.jmh;

import java.util.SplittableRandom;

/** Random inputs, the same for each engine. */
public final class Inputs {
    private Inputs() {
    }

    /** Returns standard normal numbers for a tensor of the given shape. */
    public static float[] normal(long seed, long... shape) {
        long count = 1;
        for (long size : shape) {
            count *= size;
        }
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[Math.toIntExact(count)];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    /** Returns class numbers below {@link Model#CLASSES}. */
    public static long[] labels(long seed, int count) {
        return new SplittableRandom(seed).longs(count, 0, Model.CLASSES).toArray();
    }
}
