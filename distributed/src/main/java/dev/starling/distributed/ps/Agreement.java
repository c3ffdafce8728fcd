package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.sharing.OwnRows;
import dev.starling.distributed.sharing.Throughput;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.System.Logger.Level;
import java.util.stream.DoubleStream;

/**
 * What workers that are at the same step agree on by way of the first server: sums of what they know, whether to end,
 * and which part of every batch each takes. Confined to the training thread.
 */
final class Agreement {
    /** The most numbers that are summed at a time. */
    static final int MAX_SUMMED = 1024;

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

    /** Checks that all workers divide batches in one way, or rows would be taken twice or not at all. */
    void requireAlike(boolean ownData) {
        double[] count = {proportional ? 1 : 0, ownData ? 1 : 0};
        sum(count);
        requireAlike(count[0], "divide batches by measured speed", proportional);
        requireAlike(count[1], "have rows of their own", ownData);
    }

    private void requireAlike(double count, String what, boolean own) {
        if (count > 0 && count < workers) {
            throw new DistributedException((int) count + " of " + workers + " workers " + what + ", worker " + worker
                    + (own ? " among them" : " not") + "; set all workers up alike");
        }
    }

    /** Divides batches by the rows that each worker has for itself. */
    void divideOwn(int rows) {
        double[] sizes = new double[workers];
        sizes[worker] = rows;
        sum(sizes);
        share = OwnRows.share(worker, DoubleStream.of(sizes).mapToObj(size -> (int) size).toList());
    }

    /** Returns what this worker takes of every batch. */
    Share share() {
        return share;
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

    /** Sums a model's running statistics over workers, each with its weight. */
    void sumBuffers(Layer model, double weight) {
        try (Scope scope = Scope.open("settle")) {
            for (Parameter p : model.state().values()) {
                if (p.isBuffer() && p.value().dtype().isFloating()) {
                    double[] values = p.value().to(Device.cpu()).to(DType.F64).mul(weight).toDoubles();
                    sum(values);
                    p.set(Tensor.of(values, p.shape().dims()));
                }
            }
        }
    }

    /** Adds numbers up over workers, in place. */
    void sum(double[] values) {
        tally();
        for (int from = 0; from < values.length; from += MAX_SUMMED) {
            int n = Math.min(MAX_SUMMED, values.length - from);
            client.askSum(values, from, n);
            System.arraycopy(client.total("for a sum over workers"), 0, values, from, n);
        }
    }
}
