package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.wire.RowSum;
import java.util.Arrays;

/** Gradients until all have arrived that a step needs, with one slot for each pair of unit and worker. */
final class PendingGradients {
    private final Clocks clocks;
    final boolean[] complete;
    final float[][] gradients;
    final long[][] keys;
    /** Number of floats, or of rows. */
    final int[] sizes;
    final double[] weights;
    final double[] rates;
    /** Number of messages received of the gradient. */
    final int[] parts;

    PendingGradients(Clocks clocks) {
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

    /** Appends a message to a worker's gradient. */
    void add(int slot, Request e, int floats, boolean hasKeys, boolean last) {
        int had = hasKeys && sizes[slot] > 0 ? sizes[slot] * (floats / Math.max(1, e.count)) : 0;
        gradients[slot] = reserve(gradients[slot], had + floats);
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
        complete[slot] = last;
    }

    private static float[] reserve(float[] array, int n) {
        return array == null ? new float[n] : array.length < n ? Arrays.copyOf(array, 2 * n) : array;
    }

    /**
     * Returns whether at least one of the workers from {@code first} to before {@code end}, and each that has not left,
     * has sent its complete gradient of a unit.
     */
    boolean isComplete(int unit, int first, int end) {
        boolean any = false;
        for (int slot = clocks.slot(unit, first); slot < clocks.slot(unit, end); slot++) {
            if (!complete[slot] && clocks.states[slot] != Clocks.LEFT) {
                return false;
            }
            any |= complete[slot];
        }
        return any;
    }

    /**
     * Writes the weighted sum of a block's gradients to {@code sum}, from {@code at} on, added in the order of the
     * workers' numbers.
     *
     * @return whether any worker has sent a gradient
     */
    boolean sum(int unit, int first, int end, float[] sum, int at, int n) {
        boolean any = false;
        for (int slot = clocks.slot(unit, first); slot < clocks.slot(unit, end); slot++) {
            if (!complete[slot] || sizes[slot] == 0) {
                continue;
            }
            float weight = (float) weights[slot];
            float[] g = gradients[slot];
            if (any) {
                for (int i = 0; i < n; i++) {
                    sum[at + i] = Math.fma(g[i], weight, sum[at + i]);
                }
            } else {
                for (int i = 0; i < n; i++) {
                    sum[at + i] = g[i] * weight;
                }
            }
            any = true;
        }
        return any;
    }

    /** Adds the weighted rows of all workers' gradients of a table, in the order of the workers' numbers. */
    void addRows(int unit, RowSum sum) {
        for (int slot = clocks.slot(unit, 0); slot < clocks.slot(unit + 1, 0); slot++) {
            if (complete[slot]) {
                sum.add(keys[slot], sizes[slot], gradients[slot], (float) weights[slot]);
            }
        }
    }

    /** Returns the learning rate of the worker with the lowest number, from {@code first} on. */
    double rate(int unit, int first) {
        int slot = clocks.slot(unit, first);
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
