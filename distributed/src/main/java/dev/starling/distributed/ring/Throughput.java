package dev.starling.distributed.ring;

import java.util.Arrays;

/**
 * Divides batches in proportion to how many rows per second each rank computes, so that nobody waits for the slowest.
 * Every rank feeds it the same numbers and so comes to the same division.
 */
final class Throughput {
    /** Units in which batches are divided. */
    static final int UNITS = 4096;

    /** Steps that are measured before batches are divided anew. */
    static final int INTERVAL = 10;

    /** A new division is worth it if somebody's part changes by more than this. */
    private static final double WORTH = 0.02;

    /** Of an even part: what the slowest rank gets at least, so that it can be seen to have become faster. */
    private static final double LEAST = 1 / 16.0;

    private final int[] weights;
    private final double[] rates;
    private long begunNs;
    private boolean running;
    private long rows;
    private long ns;
    private int steps;

    Throughput(int world) {
        weights = new int[world];
        rates = new double[world];
        Arrays.fill(weights, UNITS / world);
        weights[0] += UNITS % world;
    }

    /** Returns the parts of all ranks; they add up to {@link #UNITS}. */
    int[] weights() {
        return weights.clone();
    }

    /** Starts the clock, if it stands: this rank begins to work on a step. */
    void resume(long nowNs) {
        if (!running) {
            running = true;
            begunNs = nowNs;
        }
    }

    /** Counts rows that are computed in this step. */
    void count(long more) {
        rows += more;
    }

    /** Stops the clock: this rank is done with its part, or does something else. */
    void pause(long nowNs) {
        if (running) {
            running = false;
            ns += nowNs - begunNs;
        }
    }

    /** Returns this rank's rows per second since batches were last divided, 0 if there were none. */
    float rate() {
        return rows == 0 ? 0 : (float) (rows / Math.max(1e-9, ns / 1e9));
    }

    /** Notes the rate of a rank, as all ranks know it. */
    void rate(int rank, float rate) {
        rates[rank] = rate;
    }

    /** Counts a step, and divides anew now and then; returns whether parts have changed. */
    boolean step() {
        if (++steps < INTERVAL) {
            return false;
        }
        steps = 0;
        rows = 0;
        ns = 0;
        double known = Arrays.stream(rates).filter(r -> r > 0).average().orElse(0);
        if (known == 0) {
            return false;
        }
        double least = known * LEAST;
        double[] bounded = Arrays.stream(rates).map(r -> r > 0 ? Math.max(r, least) : known).toArray();
        double sum = Arrays.stream(bounded).sum();
        int[] divided = new int[weights.length];
        int left = UNITS;
        double change = 0;
        for (int r = divided.length - 1; r >= 0; r--) {
            divided[r] = r == 0 ? left : (int) Math.round(bounded[r] / sum * UNITS);
            left -= divided[r];
            change = Math.max(change, Math.abs(divided[r] - weights[r]) / (double) UNITS);
        }
        if (change < WORTH || left < 0) {
            return false;
        }
        System.arraycopy(divided, 0, weights, 0, weights.length);
        return true;
    }
}
