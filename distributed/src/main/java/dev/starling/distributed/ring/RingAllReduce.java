package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.WeightsDivergedException;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.state.Fingerprint;
import dev.starling.distributed.state.OwnRows;
import dev.starling.distributed.state.SettingsExchange;
import dev.starling.distributed.state.StateExchange;
import dev.starling.distributed.state.Throughput;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.SettingsMismatchException;
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
    /** In the vector: a parameter is frozen. Larger than the number of ranks. */
    private static final int FROZEN = 4096;

    private final Membership group;
    private final RingConfig config;
    private final Duration timeout;
    private TrainingState state;
    private List<Parameter> parameters;
    /** For each parameter whether it was frozen in the last step. */
    private boolean[] frozen;
    private int rank;
    private int world;
    private Share share;
    private Collectives collectives;
    private Buckets buckets;
    /** {@code null} if shares are equal. */
    private Throughput throughput;
    /** The order in which gradients arrived on rank 0 in its first step; {@code null} before. */
    private int[] order;
    private boolean fresh = true;
    private boolean wantsToStop;
    private boolean stops;
    /** A failure during the backward pass, which is handled after it. */
    private DistributedException pendingFailure;

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
        rank = group.rank();
        world = group.world();
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
    public boolean comparesSettings() {
        return true;
    }

    @Override
    public void start(TrainingState newState) {
        state = newState;
        group.patience().place(() -> "rank " + rank + " of " + world + ", at step " + newState.step() + ",");
        parameters = newState.optimizer().parameters();
        frozen = new boolean[parameters.size()];
        form();
    }

    /**
     * Synchronises the state and creates the buckets for the present epoch, or for the next if the present one ends
     * meanwhile.
     */
    private void form() {
        while (true) {
            try {
                collectives = group.collectives();
                assignRank();
                compareSettings();
                if (config.ownData()) {
                    share = OwnRows.share(collectives, rank, state.rows());
                }
                if (fresh && rank == 0) {
                    // A different process may have been rank 0 when training began.
                    state.resume();
                }
                int source = StateExchange.synchronize(collectives, rank, state, fresh);
                LOG.log(Level.DEBUG, "rank {0} of {1} begins at step {2} with the state of rank {3}", rank, world,
                        state.step(), source);
                fresh = false;
                // Processes that have just joined do not know the order: determine it again.
                order = null;
                pendingFailure = null;
                stops = false;
                int vectorSize = 1 + parameters.size() + world;
                DeviceReducer onDevices = world == 1 ? null : DeviceReducer.join(group, device(), config.onDevices(),
                        vectorSize, timeout);
                buckets = new Buckets(bytes -> onDevices != null ? onDevices : throughHost(bytes), parameters,
                        config.wireType(), vectorSize, new int[0], config.bucketBytes());
                throughput = config.proportional() && world > 1 ? new Throughput(world) : null;
                return;
            } catch (PeerLostException | MembershipChangedException e) {
                awaitNextEpoch(e);
            }
        }
    }

    /** Ranks that have trained together have the same settings: a difference is that of a process that has joined. */
    private void compareSettings() {
        try {
            SettingsExchange.requireSame(collectives, config.addTo(state.settings()), timeout);
        } catch (SettingsMismatchException e) {
            if (fresh) {
                throw e;
            }
            LOG.log(Level.WARNING, "rank {0} of {1}, at step {2}: {3}; continues without the process that joined", rank,
                    world, state.step(), e.getMessage());
            // Fails when that process leaves, and thereby begins the next membership epoch.
            collectives.barrier().await(timeout);
            throw e;
        }
    }

    private Reducer throughHost(long bytes) {
        Device device = device();
        return device.backend().hostVisible() ? new HostReducer(collectives, bytes)
                : new StagedReducer(collectives, device, bytes, timeout);
    }

    /** Returns the device of all parameters, or the CPU if they are on several devices. */
    private Device device() {
        List<Device> all = parameters.stream().map(p -> p.value().device()).distinct().toList();
        return all.size() == 1 ? all.getFirst() : Device.cpu();
    }

    private void awaitNextEpoch(DistributedException cause) {
        close();
        if (!config.elastic()) {
            throw cause;
        }
        LOG.log(Level.INFO, "rank {0} of {1}, at step {2}: {3}; continues with the remaining ranks", rank, world,
                state.step(), cause.getMessage());
        group.reform(timeout);
    }

    private void recover(DistributedException cause) {
        awaitNextEpoch(cause);
        form();
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
        if (pendingFailure == null) {
            try {
                buckets.put(index, gradient);
            } catch (PeerLostException | MembershipChangedException e) {
                // Handled after the backward pass.
                pendingFailure = e;
            }
        }
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        try {
            if (pendingFailure != null) {
                throw pendingFailure;
            }
            writeVector();
            buckets.complete();
            buckets.await(timeout);
        } catch (PeerLostException | MembershipChangedException e) {
            recover(e);
            return Step.RESTORED;
        }
        readFrozen();
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = buckets.vector(1 + i) % FROZEN > 0 ? buckets.reduced(i) : null;
        }
        readVector();
        return Step.LOCAL;
    }

    /** Writes this rank's part of the vector: whether it should stop, which gradients it has, how fast it is. */
    private void writeVector() {
        buckets.vector(0, wantsToStop ? 1 : 0);
        for (int i = 0; i < parameters.size(); i++) {
            buckets.vector(1 + i, !parameters.get(i).requiresGradient() ? FROZEN : buckets.isFilled(i) ? 1 : 0);
        }
        for (int r = 0; r < world; r++) {
            buckets.vector(1 + parameters.size() + r, 0);
        }
        if (throughput != null) {
            throughput.pause(System.nanoTime());
            buckets.vector(1 + parameters.size() + rank, throughput.rate());
        }
    }

    /** Requires that the same parameters are frozen on all ranks, because otherwise the ranks would diverge. */
    private void readFrozen() {
        for (int i = 0; i < parameters.size(); i++) {
            int count = (int) buckets.vector(1 + i) / FROZEN;
            if (count > 0 && count < world) {
                throw new DistributedException(state.optimizer().path(i) + " is frozen on " + count + " of " + world
                        + " ranks" + (parameters.get(i).requiresGradient() ? ", not" : ", also") + " on rank "
                        + rank + "; freeze and unfreeze parameters on all ranks between the same two steps");
            }
            if (count > 0 != frozen[i]) {
                frozen[i] = count > 0;
                // Gradients arrive in another order from now on.
                order = null;
            }
        }
    }

    private void readVector() {
        stops = buckets.vector(0) > 0;
        if (throughput != null) {
            for (int r = 0; r < world; r++) {
                throughput.rate(r, buckets.vector(1 + parameters.size() + r));
            }
            if (throughput.step()) {
                share = throughput.share(rank);
                LOG.log(Level.DEBUG, "rank {0} now trains on {1}", rank, share);
            }
        }
    }

    @Override
    public void afterStep() {
        try {
            if (order == null) {
                adoptOrder();
            }
            if (world > 1 && config.checkInterval() > 0 && state.step() % config.checkInterval() == 0) {
                compareWeights();
            }
        } catch (PeerLostException | MembershipChangedException e) {
            recover(e);
            return;
        }
        buckets.reset();
    }

    private void compareWeights() {
        WeightsDivergedException difference = Fingerprint.compare(collectives, state, timeout);
        if (difference != null) {
            throw difference;
        }
    }

    /** Orders buckets by the arrival of gradients on rank 0 in the previous step. */
    private void adoptOrder() {
        int[] own = buckets.arrivals();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ints = arena.allocate(ValueLayout.JAVA_INT, 1 + parameters.size());
            ints.set(ValueLayout.JAVA_INT, 0, own.length);
            MemorySegment.copy(own, 0, ints, ValueLayout.JAVA_INT, Integer.BYTES, own.length);
            collectives.broadcast(ints, 0);
            order = new int[ints.get(ValueLayout.JAVA_INT, 0)];
            MemorySegment.copy(ints, ValueLayout.JAVA_INT, Integer.BYTES, order, 0, order.length);
        }
        buckets.reorder(order);
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
        List<Parameter> statistics = state.model().state().values().stream()
                .filter(p -> p.isBuffer() && p.value().dtype().isFloating()).toList();
        long count = statistics.stream().mapToLong(p -> p.shape().count()).sum();
        if (world == 1 || count == 0) {
            return;
        }
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
        } catch (PeerLostException | MembershipChangedException e) {
            recover(e);
        }
    }

    @Override
    public void sum(double[] values) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocateFrom(ValueLayout.JAVA_DOUBLE, values);
            collectives.allReduce(all, DType.F64, ReduceOp.SUM);
            MemorySegment.copy(all, ValueLayout.JAVA_DOUBLE, 0, values, 0, values.length);
        } catch (PeerLostException | MembershipChangedException e) {
            recover(e);
        }
    }

    @Override
    public void finish() {
        try {
            // A rank that reaches this point has all results that it needs from the others.
            collectives.barrier().await(timeout);
        } catch (PeerLostException | MembershipChangedException e) {
            LOG.log(Level.DEBUG, "rank {0} ends without a final barrier: {1}", rank, e.getMessage());
        }
    }

    /** Releases the buckets' memory. */
    @Override
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
         * @throws TensorException if both {@link #proportional} and {@link #ownData} are set
         */
        public RingAllReduce build() {
            if (ownData && proportional) {
                throw TensorException.argument("ring", "proportional() divides batches by speed, but with ownData() "
                        + "each rank takes its own rows", "leave one of them out");
            }
            return new RingAllReduce(group, new RingConfig(wireType, bucketBytes, proportional, elastic, ownData,
                    onDevices, checkInterval));
        }
    }
}
