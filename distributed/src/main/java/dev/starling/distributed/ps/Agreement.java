package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.sharing.Throughput;
import dev.starling.nn.data.Share;
import java.lang.System.Logger.Level;

/**
 * What workers that are at the same step agree on by way of the first server: sums of what they know, whether to end,
 * and which part of every batch each takes. Confined to the training thread.
 */
final class Agreement {
    /** The most numbers that are summed at a time. */
    static final int MOST_SUMMED = 1024;

    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Client client;
    private final int worker;
    private final int workers;
    private final boolean proportional;
    /** {@code null} if parts stay even. */
    private final Throughput throughput;
    private Share share;
    private boolean isVoting;
    private boolean isEnding;

    /** Begins with even parts, which stay so unless {@code proportional}. */
    Agreement(Client client, int worker, int workers, boolean proportional) {
        this.client = client;
        this.worker = worker;
        this.workers = workers;
        this.proportional = proportional;
        throughput = proportional && workers > 1 ? new Throughput(workers) : null;
        share = Share.part(worker, workers);
    }

    /** Checks that all workers divide batches in one way, or rows would be taken twice, or by nobody. */
    void requireAlike() {
        double[] count = {proportional ? 1 : 0};
        sum(count);
        if (count[0] > 0 && count[0] < workers) {
            throw new DistributedException((int) count[0] + " of " + workers + " workers divide batches by measured "
                    + "speed, and worker " + worker + (proportional ? " does so" : " does not")
                    + "; set all workers up alike");
        }
    }

    /** Returns what this worker takes of every batch. */
    Share share() {
        return share;
    }

    /** Returns how much of every batch that is, between 0 and 1. */
    double weight() {
        Share.Part part = (Share.Part) share;
        return (part.to() - part.from()) / (double) part.of();
    }

    // ---- how fast this worker is ----

    /** Goes on to measure: rows are computed now. */
    void compute(long rows) {
        if (throughput != null) {
            throughput.resume(client.nanoTime());
            throughput.count(rows);
        }
    }

    /** Measures no more: this worker waits, or does something else than steps. */
    void pause() {
        if (throughput != null) {
            throughput.pause(client.nanoTime());
        }
    }

    // ---- votes ----

    /** Takes effect a step later, so that nobody waits for the votes of others. */
    boolean stops(boolean wanted) {
        tally();
        if (!isEnding) {
            double[] votes = new double[throughput == null ? 1 : 1 + workers];
            votes[0] = wanted ? 1 : 0;
            if (throughput != null) {
                votes[1 + worker] = throughput.rate();
            }
            client.askSum(votes, 0, votes.length);
            isVoting = true;
        }
        compute(0);
        return isEnding;
    }

    /** Waits for votes that are under way, which all workers do at the same place. */
    void tally() {
        if (!isVoting) {
            return;
        }
        isVoting = false;
        double[] votes = client.total("for the votes of all workers");
        isEnding = votes[0] > 0;
        for (int w = 1; w < votes.length; w++) {
            throughput.rate(w - 1, (float) votes[w]);
        }
        if (throughput != null && throughput.step()) {
            share = throughput.share(worker);
            LOG.log(Level.DEBUG, "worker {0} now takes {1}", worker, share);
        }
    }

    /** Adds numbers up over workers, in place. */
    void sum(double[] values) {
        tally();
        for (int from = 0; from < values.length; from += MOST_SUMMED) {
            int n = Math.min(MOST_SUMMED, values.length - from);
            client.askSum(values, from, n);
            System.arraycopy(client.total("for a sum over workers"), 0, values, from, n);
        }
    }
}
