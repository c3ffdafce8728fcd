package dev.starling.distributed.ps.worker;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.state.OwnRows;
import dev.starling.distributed.state.Throughput;
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
 * What synchronous workers agree on through server 0: sums of values, whether to stop, and the share of each batch that
 * a worker computes. Confined to the training thread.
 */
public final class Agreement {
    /** Maximum number of values in one sum. */
    public static final int MAX_SUMMED = 1024;

    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Client client;
    private final int worker;
    private final int workers;
    private final boolean proportional;
    /** {@code null} if shares stay equal. */
    private final Throughput throughput;
    private Share share;
    private boolean voting;
    private boolean ending;

    /** Starts with equal shares; they change only if {@code proportional}. */
    public Agreement(Client client, int worker, int workers, boolean proportional) {
        this.client = client;
        this.worker = worker;
        this.workers = workers;
        this.proportional = proportional;
        throughput = proportional && workers > 1 ? new Throughput(workers) : null;
        share = Share.part(worker, workers);
    }

    /** Checks that all workers divide batches in the same way; otherwise rows would be used twice or not at all. */
    public void requireSameSettings(boolean ownData) {
        double[] count = {proportional ? 1 : 0, ownData ? 1 : 0};
        sum(count);
        requireSameSetting(count[0], "proportional()", proportional);
        requireSameSetting(count[1], "ownData()", ownData);
    }

    private void requireSameSetting(double count, String setting, boolean own) {
        if (count > 0 && count < workers) {
            throw new DistributedException((int) count + " of " + workers + " workers use " + setting + ", worker "
                    + worker + (own ? " does" : " does not") + "; give all workers the same settings");
        }
    }

    /** Divides batches in proportion to the number of rows that each worker has. */
    public void divideOwnRows(int rows) {
        double[] sizes = new double[workers];
        sizes[worker] = rows;
        sum(sizes);
        share = OwnRows.share(worker, DoubleStream.of(sizes).mapToObj(size -> (int) size).toList());
    }

    /** Returns this worker's share of each batch. */
    public Share share() {
        return share;
    }

    // ---- measured speed ----

    /** Resumes the measurement: the worker computes rows from now on. */
    public void compute(long rows) {
        if (throughput != null) {
            throughput.resume(client.nanoTime());
            throughput.count(rows);
        }
    }

    /** Pauses the measurement: the worker waits, or does other work than training steps. */
    public void pause() {
        if (throughput != null) {
            throughput.pause(client.nanoTime());
        }
    }

    // ---- votes ----

    /** Votes on whether to stop. Takes effect one step later, so that a worker need not wait for the others' votes. */
    public boolean stops(boolean wanted) {
        tally();
        if (!ending) {
            double[] votes = new double[throughput == null ? 1 : 1 + workers];
            votes[0] = wanted ? 1 : 0;
            if (throughput != null) {
                votes[1 + worker] = throughput.rate();
            }
            client.askSum(votes, 0, votes.length);
            voting = true;
        }
        compute(0);
        return ending;
    }

    /** Waits for votes in flight. All workers call this at the same point of a step. */
    public void tally() {
        if (!voting) {
            return;
        }
        voting = false;
        double[] votes = client.total("for the votes of all workers");
        ending = votes[0] > 0;
        for (int w = 1; w < votes.length; w++) {
            throughput.rate(w - 1, (float) votes[w]);
        }
        if (throughput != null && throughput.step()) {
            share = throughput.share(worker);
            LOG.log(Level.DEBUG, "worker {0} now has the share {1}", worker, share);
        }
    }

    /** Replaces a model's running statistics with their weighted sum over workers. */
    public void sumBuffers(Layer model, double weight) {
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

    /** Sums values over workers, in place. */
    public void sum(double[] values) {
        tally();
        for (int from = 0; from < values.length; from += MAX_SUMMED) {
            int n = Math.min(MAX_SUMMED, values.length - from);
            client.askSum(values, from, n);
            System.arraycopy(client.total("for a sum over workers"), 0, values, from, n);
        }
    }
}
