package dev.starling.distributed.ps.worker;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.WeightsDivergedException;
import dev.starling.distributed.Work;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.distributed.state.Fingerprint;
import dev.starling.distributed.state.OwnRows;
import dev.starling.distributed.state.Throughput;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What synchronous workers agree on by the collectives of their sub-group: the start of the run, sums of values,
 * whether to stop, and the share of each batch that a worker computes. Sums are taken in the order of the workers'
 * numbers, whatever their ranks are. Confined to the training thread.
 */
public final class Agreement implements AutoCloseable {
    /** Maximum number of values in one sum. */
    public static final int MAX_SUMMED = 1024;

    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Client client;
    private final int worker;
    private final int workers;
    private final Collectives collectives;
    /** The values of all workers, by rank. */
    private final SymmetricBuffer values;
    /** By number, the rank of a worker. */
    private final int[] ranks;
    /** {@code null} if shares stay equal. */
    private final @Nullable Throughput throughput;
    private final Map<String, String> beginning;
    private Share share;
    /** The votes in flight, or {@code null}. */
    private @Nullable Work voting;
    /** The last collective on {@link #values}; {@code null} before the first. */
    private @Nullable Work gathering;
    private boolean ending;

    /**
     * What a worker tells the others at the start.
     *
     * @param notes of its position in the run
     */
    private record Start(int number, int rows, Map<String, String> notes) {
        static final RecordCodec<Start> CODEC = RecordCodec.of(Start.class);
    }

    /**
     * Waits for all workers. The servers have compared their settings.
     *
     * @param ownData whether each worker has rows of its own; batches are then divided in proportion to their number
     * @throws DistributedException if two workers have the same number
     */
    public Agreement(Client client, int worker, boolean proportional, boolean ownData, TrainingState state) {
        this.client = client;
        this.worker = worker;
        collectives = client.peers().collectives();
        workers = client.peers().world();
        ranks = new int[workers];
        Start own = new Start(worker, ownData ? state.rows() : 0, state.notes());
        List<Start> starts = explained("for all workers to start", () -> Start.CODEC.exchange(collectives, own));
        Start[] byNumber = new Start[workers];
        for (int rank = 0; rank < workers; rank++) {
            int number = starts.get(rank).number;
            if (number < 0 || number >= workers || byNumber[number] != null) {
                throw new DistributedException("two workers have the number " + number + ", or it is not below the "
                        + "number of workers, " + workers + "; give each worker a number of its own");
            }
            byNumber[number] = starts.get(rank);
            ranks[number] = rank;
        }
        throughput = proportional && workers > 1 ? new Throughput(workers) : null;
        share = ownData ? OwnRows.share(worker, Arrays.stream(byNumber).map(Start::rows).toList())
                : Share.part(worker, workers);
        beginning = byNumber[0].notes;
        values = explained("for all workers to start", () -> collectives.symmetric((long) Double.BYTES * MAX_SUMMED
                * workers));
    }

    private <T> T explained(String what, Supplier<T> call) {
        try {
            return call.get();
        } catch (DistributedException e) {
            throw client.explain(e, what);
        }
    }

    /** Returns the notes with which worker 0 has started. */
    public Map<String, String> beginning() {
        return beginning;
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

    // ---- weights ----

    /** After every {@code interval} steps, requires that all workers have the same weights. */
    public void compareWeights(TrainingState state, int interval) {
        if (workers == 1 || interval == 0 || state.step() % interval != 0) {
            return;
        }
        WeightsDivergedException difference = explained("for the checksums of all workers' weights",
                () -> Fingerprint.compare(collectives, state, client.timeout()));
        if (difference != null) {
            throw difference;
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
            voting = gather(votes, 0, votes.length);
        }
        compute(0);
        return ending;
    }

    /** Waits for votes in flight. All workers call this at the same point of a step. */
    public void tally() {
        if (voting == null) {
            return;
        }
        client.await(voting, "for the votes of all workers");
        voting = null;
        double[] votes = new double[throughput == null ? 1 : 1 + workers];
        add(votes, 0, votes.length);
        ending = votes[0] > 0;
        for (int w = 1; throughput != null && w < votes.length; w++) {
            throughput.rate(w - 1, (float) votes[w]);
        }
        if (throughput != null && throughput.step()) {
            share = throughput.share(worker);
            LOG.log(Level.DEBUG, "worker {0} now has the share {1}", worker, share);
        }
    }

    /** Replaces a model's running statistics with their weighted sum over workers. */
    public void sumBuffers(Module model, double weight) {
        try (Scope scope = Scope.open("settle")) {
            for (Parameter p : model.state().values()) {
                if (p.isBuffer() && p.value().dtype().isFloating()) {
                    double[] sums = p.value().to(Device.cpu()).to(DType.F64).mul(weight).toDoubles();
                    sum(sums);
                    p.set(Tensor.of(sums, p.shape().dims()));
                }
            }
        }
    }

    /** Sums values over workers, in place. */
    public void sum(double[] summed) {
        tally();
        for (int from = 0; from < summed.length; from += MAX_SUMMED) {
            int n = Math.min(MAX_SUMMED, summed.length - from);
            client.await(gather(summed, from, n), "for a sum over workers");
            Arrays.fill(summed, from, from + n, 0);
            add(summed, from, n);
        }
    }

    /** Starts to gather {@code n} values of each worker. */
    private Work gather(double[] own, int from, int n) {
        MemorySegment.copy(own, from, values.memory(), ValueLayout.JAVA_DOUBLE, (long) Double.BYTES * n
                * ranks[worker], n);
        Work work = explained("for all workers", () -> collectives.allGather(values, 0, (long) n * workers,
                DType.F64));
        gathering = work;
        return work;
    }

    private void add(double[] sums, int from, int n) {
        for (int rank : ranks) {
            for (int i = 0; i < n; i++) {
                sums[from + i] += values.memory().getAtIndex(ValueLayout.JAVA_DOUBLE, (long) rank * n + i);
            }
        }
    }

    /** Releases the memory. A pending collective ends, and with it this worker's participation in the run. */
    @Override
    public void close() {
        if (gathering != null && !gathering.isDone()) {
            collectives.stop();
        }
        values.close();
    }
}
