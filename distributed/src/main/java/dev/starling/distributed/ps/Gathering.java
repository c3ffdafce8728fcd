package dev.starling.distributed.ps;

import java.util.Arrays;

/** Keeps gradients until those of all workers are there. A place for every pair of unit and worker. */
final class Gathering {
    private final Clocks clocks;
    final boolean[] complete;
    final float[][] gradients;
    final long[][] keys;
    /** Floats, or rows. */
    final int[] sizes;
    final double[] weights;
    final double[] rates;
    /** Messages that the gradient came in. */
    final int[] parts;

    Gathering(Clocks clocks) {
        this.clocks = clocks;
        int n = clocks.states.length;
        complete = new boolean[n];
        gradients = new float[n][];
        keys = new long[n][];
        sizes = new int[n];
        weights = new double[n];
        rates = new double[n];
        parts = new int[n];
    }

    /** Adds a message's gradient to a worker's. */
    void add(int slot, Request e, int floats, boolean hasKeys, boolean isLast) {
        int had = hasKeys && sizes[slot] > 0 ? sizes[slot] * (floats / Math.max(1, e.count)) : 0;
        gradients[slot] = room(gradients[slot], had + floats);
        System.arraycopy(e.gradient, 0, gradients[slot], had, floats);
        if (hasKeys) {
            int n = sizes[slot] + e.count;
            if (keys[slot] == null || keys[slot].length < n) {
                keys[slot] = keys[slot] == null ? new long[n] : Arrays.copyOf(keys[slot], 2 * n);
            }
            System.arraycopy(e.keys, 0, keys[slot], sizes[slot], e.count);
        }
        sizes[slot] += e.count;
        weights[slot] = e.weight;
        rates[slot] = e.rate;
        parts[slot]++;
        complete[slot] = isLast;
    }

    private static float[] room(float[] array, int n) {
        return array == null ? new float[n] : array.length < n ? Arrays.copyOf(array, 2 * n) : array;
    }

    /** Tells whether all workers that are not gone have given theirs to a unit, and there is one. */
    boolean isComplete(int unit) {
        boolean any = false;
        for (int slot = clocks.slot(unit, 0); slot < clocks.slot(unit + 1, 0); slot++) {
            if (!complete[slot] && clocks.states[slot] != Clocks.GONE) {
                return false;
            }
            any |= complete[slot];
        }
        return any;
    }

    /**
     * Puts the sum of a block's gradients into {@code sum}, each times its weight, in the order of ranks.
     *
     * @return whether there is any gradient
     */
    boolean sum(int unit, float[] sum, int n) {
        boolean any = false;
        for (int slot = clocks.slot(unit, 0); slot < clocks.slot(unit + 1, 0); slot++) {
            if (!complete[slot] || sizes[slot] == 0) {
                continue;
            }
            float weight = (float) weights[slot];
            float[] g = gradients[slot];
            if (any) {
                for (int i = 0; i < n; i++) {
                    sum[i] = Math.fma(g[i], weight, sum[i]);
                }
            } else {
                for (int i = 0; i < n; i++) {
                    sum[i] = g[i] * weight;
                }
            }
            any = true;
        }
        return any;
    }

    /** Returns the rate that the first of the workers wants. */
    double rate(int unit) {
        int slot = clocks.slot(unit, 0);
        while (!complete[slot]) {
            slot++;
        }
        return rates[slot];
    }

    void clear(int slot) {
        complete[slot] = false;
        sizes[slot] = 0;
        parts[slot] = 0;
    }
}
