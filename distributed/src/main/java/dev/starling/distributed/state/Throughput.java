package dev.starling.distributed.state;

import dev.starling.nn.data.Share;
import java.util.Arrays;

/**
 * Divides batches in proportion to how many rows per second each rank computes, so that no rank waits for the slowest.
 * Every rank passes in the same numbers and so computes the same division. Confined to the training thread.
 */
public final class Throughput {
    /** Number of units into which a batch is divided. */
    private static final int UNITS = 4096;

    /** Number of steps that are measured before batches are divided again. */
    static final int INTERVAL = 10;

    /** A new division is adopted if the share of some rank changes by more than this. */
    private static final double MIN_CHANGE = 0.02;

    /** Minimum share of a rank, relative to an equal one, so that a rank that has become faster is noticed. */
    private static final double MIN_SHARE = 1 / 16.0;

    private final int[] weights;
    private final double[] rates;
    private long begunNs;
    private boolean running;
    private long rows;
    private long ns;
    private int steps;

    /** Begins with equal shares. */
    public Throughput(int world) {
        weights = new int[world];
        rates = new double[world];
        Arrays.fill(weights, UNITS / world);
        weights[0] += UNITS % world;
    }

    /** Returns the share of a rank; the shares of all ranks add up to the whole batch. */
    public Share share(int rank) {
        return Share.part(rank, weights);
    }

    /** Starts the clock, if it is stopped: this rank begins to work on a step. */
    public void resume(long nowNs) {
        if (!running) {
            running = true;
            begunNs = nowNs;
        }
    }

    /** Counts rows that are computed in this step. */
    public void count(long more) {
        rows += more;
    }

    /** Stops the clock: this rank has finished its share, or does something else. */
    public void pause(long nowNs) {
        if (running) {
            running = false;
            ns += nowNs - begunNs;
        }
    }

    /** Returns this rank's rows per second since batches were last divided, 0 if there were none. */
    public float rate() {
        return rows == 0 ? 0 : (float) (rows / Math.max(1e-9, ns / 1e9));
    }

    /** Sets the rate of a rank, as all ranks know it. */
    public void rate(int rank, float rate) {
        rates[rank] = rate;
    }

    /** Counts a step, and divides batches again after each interval; returns whether shares have changed. */
    public boolean step() {
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
        double min = known * MIN_SHARE;
        double[] bounded = Arrays.stream(rates).map(r -> r > 0 ? Math.max(r, min) : known).toArray();
        double sum = Arrays.stream(bounded).sum();
        int[] divided = new int[weights.length];
        double change = 0;
        double before = 0;
        int from = 0;
        for (int r = 0; r < divided.length; r++) {
            before += bounded[r];
            // Round the bounds of shares rather than their sizes, because otherwise the last share could become
            // negative.
            int to = r == divided.length - 1 ? UNITS : (int) Math.round(before / sum * UNITS);
            divided[r] = to - from;
            from = to;
            change = Math.max(change, Math.abs(divided[r] - weights[r]) / (double) UNITS);
        }
        if (change < MIN_CHANGE) {
            return false;
        }
        System.arraycopy(divided, 0, weights, 0, weights.length);
        return true;
    }
}
