package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.WeightsDivergedException;
import dev.starling.distributed.bucket.Buckets;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.distributed.epoch.MembershipEpochs;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Strategies;
import dev.starling.distributed.state.Fingerprint;
import dev.starling.distributed.state.OwnRows;
import dev.starling.distributed.state.Throughput;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Synchronous training without a server: each rank computes the gradient of its share of every batch, gradients are
 * summed over all ranks while the backward pass still runs, and every rank takes the same step. All ranks hold the same
 * bits; the run is that of a single process on the same batches, to within rounding. Batch normalisation sees only a
 * rank's share of the batch; running statistics are averaged before the model is measured or saved.
 *
 * <p>Parameters have to be frozen and unfrozen on all ranks between the same two steps; otherwise all ranks throw.
 * Where a sum of gradients is infinite or NaN, all ranks refuse the step.
 *
 * <p>If all ranks are on one host with a GPU each, and NCCL is available, gradients never leave the GPUs; NCCL then
 * decides which bf16 sums are rounded between ranks. Otherwise a GPU copies gradients to memory that is
 * registered with the transport, and the sums back, concurrently with the backward pass.
 *
 * <p>If a rank is lost, the run ends with a {@link PeerLostException}, and the parameters are those after the last
 * complete step. If the strategy is {@link Builder#elastic}, the other ranks continue at that step with the state of
 * one of them, and processes that join later receive this state. The contribution of a lost rank to the metrics of the
 * epoch is missing.
 *
 * <pre>{@code
 * try (Group group = Group.join(config); RingAllReduce ring = RingAllReduce.over(group).build()) {
 *     Trainer.of(model, loss, optimizer).data(batches).strategy(ring).build().run();
 * }
 * }</pre>
 *
 * <p>The group remains owned by the caller. Confined to the training thread.
 */
public final class RingAllReduce implements DistributionStrategy, StreamsGradients, Collective, Concludes {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Membership group;
    private final RingConfig config;
    private final Duration timeout;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private MembershipEpochs epochs;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private TrainingState state;
    private int rank;
    private int world;
    private Share share;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private Collectives collectives;
    /** Set by {@link #start}, cleared by {@link #close}. */
    @SuppressWarnings("NullAway.Init")
    private Buckets buckets;
    /** {@code null} if shares are equal. */
    private @Nullable Throughput throughput;
    private boolean wantsToStop;
    private boolean stops;

    private RingAllReduce(Group group, RingConfig config) {
        this.group = Membership.of(group);
        this.config = config;
        timeout = group.config().timeout();
        assignRank();
    }

    /** Begins the configuration of a strategy for the members of a group. */
    public static Builder over(Group group) {
        return new Builder(group);
    }

    private void assignRank() {
        // Otherwise the members may change between both calls.
        group.locked(() -> {
            rank = group.rank();
            world = group.world();
        });
        share = config.ownData() ? new Share.Own() : Share.part(rank, world);
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int world() {
        return world;
    }

    @Override
    public Share share() {
        return share;
    }

    // ---- membership ----

    @Override
    public void start(TrainingState newState) {
        // What an earlier run has left does not count in this one.
        close();
        wantsToStop = false;
        epochs = MembershipEpochs.of(group, config.elastic(), this::begin, this::close);
        state = newState;
        group.patience().place(() -> "rank " + rank + " of " + world + ", at step " + newState.step() + ",");
        Strategies.begin(group, "ring");
        epochs.start(newState, config.addTo(newState.settings()));
    }

    /** Creates what belongs to a membership epoch. */
    private void begin(Collectives ofEpoch) {
        collectives = ofEpoch;
        assignRank();
        if (config.ownData()) {
            share = OwnRows.share(collectives, rank, state.rows());
        }
        stops = false;
        buckets = Buckets.over(group, collectives, state.optimizer()).wireType(config.wireType()).codec(config.codec())
                .bucketBytes(config.bucketBytes()).numbers(1 + world).onDevices(config.onDevices()).open();
        throughput = config.proportional() && world > 1 ? new Throughput(world) : null;
    }

    // ---- a step ----

    @Override
    public void beforeForward(Tensor input) {
        if (throughput != null) {
            throughput.resume(System.nanoTime());
            throughput.count(input.size(0));
        }
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        Strategies.started(buckets, "gradient").gradient(index, gradient);
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        Strategies.started(buckets, "beforeStep");
        writeNumbers();
        if (!epochs.run(() -> buckets.sum(gradients))) {
            return Step.RESTORED;
        }
        readNumbers();
        return Step.LOCAL;
    }

    /** Writes what this rank adds to the sums: whether it should stop, how fast it is. */
    private void writeNumbers() {
        buckets.number(0, wantsToStop ? 1 : 0);
        for (int r = 0; r < world; r++) {
            buckets.number(1 + r, 0);
        }
        if (throughput != null) {
            throughput.pause(System.nanoTime());
            buckets.number(1 + rank, throughput.rate());
        }
    }

    private void readNumbers() {
        stops = buckets.number(0) > 0;
        if (throughput != null) {
            for (int r = 0; r < world; r++) {
                throughput.rate(r, buckets.number(1 + r));
            }
            if (throughput.step()) {
                share = throughput.share(rank);
                LOG.log(Level.DEBUG, "rank {0} now trains on {1}", rank, share);
            }
        }
    }

    @Override
    public void afterStep() {
        Strategies.started(epochs, "afterStep").run(this::next);
    }

    private void next() {
        if (world > 1 && config.checkInterval() > 0 && state.step() % config.checkInterval() == 0) {
            WeightsDivergedException difference = Fingerprint.compare(collectives, state, timeout);
            if (difference != null) {
                throw difference;
            }
        }
        buckets.next();
    }

    @Override
    public boolean stops(boolean wanted) {
        wantsToStop = wanted;
        if (throughput != null) {
            throughput.resume(System.nanoTime());
        }
        return stops;
    }

    // ---- between steps ----

    @Override
    public void settle() {
        if (throughput != null) {
            throughput.pause(System.nanoTime());
        }
        List<Parameter> statistics = Strategies.started(state, "settle").model().state().values().stream()
                .filter(p -> p.isBuffer() && p.value().dtype().isFloating()).toList();
        long count = statistics.stream().mapToLong(p -> p.shape().count()).sum();
        if (world == 1 || count == 0) {
            return;
        }
        epochs.run(() -> average(statistics, count));
    }

    private void average(List<Parameter> statistics, long count) {
        double weight = share.weight();
        try (Arena arena = Arena.ofConfined(); Scope scope = Scope.open("settle")) {
            MemorySegment all = arena.allocate(ValueLayout.JAVA_DOUBLE, count);
            Tensor[] means = new Tensor[statistics.size()];
            long at = 0;
            for (int i = 0; i < means.length; i++) {
                Tensor own = statistics.get(i).value();
                means[i] = Tensor.wrap(all.asSlice(at), DType.F64, own.shape().dims());
                Tensor.apply(new Update.Assign(), means[i], own.to(Device.cpu()).to(DType.F64).mul(weight));
                at += own.count() * Double.BYTES;
            }
            collectives.allReduce(all, DType.F64, ReduceOp.SUM);
            for (int i = 0; i < means.length; i++) {
                statistics.get(i).set(means[i]);
            }
        }
    }

    @Override
    public void sum(double[] values) {
        Strategies.started(epochs, "sum").run(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment all = arena.allocateFrom(ValueLayout.JAVA_DOUBLE, values);
                collectives.allReduce(all, DType.F64, ReduceOp.SUM);
                MemorySegment.copy(all, ValueLayout.JAVA_DOUBLE, 0, values, 0, values.length);
            }
        });
    }

    @Override
    public void finish() {
        try {
            // A rank that reaches this point has all results that it needs from the others.
            Strategies.started(collectives, "finish").barrier().await(timeout);
        } catch (PeerLostException | MembershipChangedException e) {
            LOG.log(Level.DEBUG, "rank {0} ends without a final barrier: {1}", rank, e.getMessage());
        }
    }

    /** Releases the buckets' memory. */
    @Override
    @SuppressWarnings("NullAway") // There are no buckets between the end and another start.
    public void close() {
        if (buckets != null) {
            buckets.close();
            buckets = null;
        }
    }

    /**
     * Collects the configuration, which must be the same on all ranks. A strategy that was built is independent of its
     * builder.
     */
    public static final class Builder {
        private final Group group;
        private DType wireType = DType.F32;
        private @Nullable GradientCodec codec;
        private long bucketBytes = 4 << 20;
        private boolean proportional;
        private boolean elastic;
        private boolean ownData;
        private boolean onDevices = true;
        private int checkInterval = 100;

        private Builder(Group group) {
            this.group = group;
        }

        /**
         * Sends f32 gradients as bf16: half the bytes, 8 bits of precision. Sums are kept in f32 and rounded once.
         */
        public Builder halfPrecision() {
            wireType = DType.BF16;
            return this;
        }

        /**
         * Sums f32 gradients in another way than by an all-reduce, such as
         * {@link dev.starling.distributed.codec.TopK} or {@link dev.starling.distributed.codec.PowerSgd};
         * {@code null} for an all-reduce. A group of
         * one rank does without. What a codec holds back is dropped when the members change, and at the end of the run:
         * checkpoints do not contain it. Gradients on GPUs pass through the host's memory as they arrive.
         */
        public Builder codec(@Nullable GradientCodec newCodec) {
            codec = newCodec;
            return this;
        }

        /** Sets the number of bytes of gradients that are reduced together; the default is 4 MiB. */
        public Builder bucketBytes(long bytes) {
            if (bytes < 1) {
                throw TensorException.argument("ring", "bucketBytes >= 1 must hold, got " + bytes, "set 1 or more");
            }
            bucketBytes = bytes;
            return this;
        }

        /**
         * Divides batches in proportion to the measured speed of each rank, instead of equally. Two runs are then equal
         * only to within rounding.
         */
        public Builder proportional() {
            proportional = true;
            return this;
        }

        /**
         * Trains on rows that each rank has for itself: a batch takes the same fraction of each rank's rows, so that an
         * epoch takes each row of each rank once, however unequal their numbers are ({@link Share.OwnPart}). After the
         * loss of a rank its rows are missing.
         */
        public Builder ownData() {
            ownData = true;
            return this;
        }

        /**
         * Continues after the loss of ranks, and with processes that join; the coordinator has to re-form the group,
         * too.
         */
        public Builder elastic() {
            elastic = true;
            return this;
        }

        /**
         * Sets after how many steps, each time, ranks compare checksums of their weights, which must be equal; default
         * 100, 0 for never. Ranks whose weights differ end with a {@link WeightsDivergedException}.
         */
        public Builder checkWeightsEvery(int steps) {
            if (steps < 0) {
                throw TensorException.argument("ring", "checkWeightsEvery >= 0 must hold, got " + steps,
                        "set 0 or more");
            }
            checkInterval = steps;
            return this;
        }

        /** Sums gradients in the host's memory even where devices could do it among themselves. */
        public Builder throughHost() {
            onDevices = false;
            return this;
        }

        /**
         * Creates the strategy.
         *
         * @throws TensorException if both {@link #proportional} and {@link #ownData}, or both {@link #codec} and
         *     {@link #halfPrecision} are set
         */
        public RingAllReduce build() {
            if (codec != null && wireType != DType.F32) {
                throw TensorException.argument("ring", "codec(" + codec + ") and halfPrecision() both decide how "
                        + "gradients are sent", "leave one of them out");
            }
            if (ownData && proportional) {
                throw TensorException.argument("ring", "proportional() divides batches by speed, but with ownData() "
                        + "each rank takes its own rows", "leave one of them out");
            }
            return new RingAllReduce(group, new RingConfig(wireType, codec, bucketBytes, proportional, elastic, ownData,
                    onDevices, checkInterval));
        }
    }
}
