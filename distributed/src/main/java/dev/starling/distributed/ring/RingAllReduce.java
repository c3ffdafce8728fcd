package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.sharing.OwnRows;
import dev.starling.distributed.sharing.Throughput;
import dev.starling.distributed.state.StateExchange;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.DistributionStrategy;
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
 * Synchronous training without a server: each rank differentiates its part of every batch, gradients are added up over
 * all ranks while the backward pass still runs, and every rank takes the same step. All ranks hold the same bits; the
 * run is that of a single process on the same batches, to within rounding. Batch normalisation sees a rank's part of
 * the batch only; running statistics are averaged before the model is measured or saved.
 *
 * <p>Parameters are frozen and unfrozen on all ranks between the same two steps; else all ranks throw. Where a sum of
 * gradients is infinite or NaN, all ranks refuse the step.
 *
 * <p>If all ranks are on one host and have a GPU each, and there is NCCL, gradients never leave the GPUs; which sums
 * of bf16 are then rounded between ranks is NCCL's choice. Otherwise a GPU copies them to memory that is registered
 * with the transport, and the sums back, beside the backward pass.
 *
 * <p>If a rank is lost the run ends with a {@link PeerLostException}, and the parameters are as after the last complete
 * step; unless it is {@link Builder#elastic}, then the others go on at that step with the state of one of them, and
 * those who join later take it over. What a lost rank had added to the metrics of the epoch is missing from them.
 *
 * <pre>{@code
 * try (Group group = Group.join(config); RingAllReduce ring = RingAllReduce.over(group).build()) {
 *     Trainer.of(model, loss, optimizer).data(batches).strategy(ring).build().run();
 * }
 * }</pre>
 *
 * <p>The group stays the caller's. Confined to the training thread.
 */
public final class RingAllReduce implements DistributionStrategy {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** Says in the vector that a parameter is frozen; more than there are ranks. */
    private static final int FROZEN = 4096;

    private final Group group;
    private final Builder how;
    private final Duration patience;
    private TrainingState state;
    private List<Parameter> parameters;
    /** By parameter, whether it was frozen in the last step. */
    private boolean[] frozen;
    private int rank;
    private int world;
    private Share share;
    private Collectives collectives;
    private Buckets buckets;
    /** {@code null} if parts stay even. */
    private Throughput throughput;
    /** How gradients came on rank 0 in its first step; {@code null} before. */
    private int[] order;
    private boolean fresh = true;
    private boolean wantsToStop;
    private boolean stops;
    /** What went wrong in the midst of the backward pass. */
    private DistributedException broken;

    private RingAllReduce(Group group, Builder how) {
        this.group = group;
        this.how = how;
        patience = group.config().timeout();
        seat();
    }

    /** Begins a strategy for the members of a group. */
    public static Builder over(Group group) {
        return new Builder(group);
    }

    private void seat() {
        rank = group.rank();
        world = group.world();
        share = how.ownData ? new Share.Own() : Share.part(rank, world);
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

    // ---- who takes part ----

    @Override
    public void start(TrainingState newState) {
        state = newState;
        parameters = newState.optimizer().parameters();
        frozen = new boolean[parameters.size()];
        form();
    }

    /** Makes states and buckets of the present epoch, or of the next if that ends meanwhile. */
    private void form() {
        while (true) {
            try {
                collectives = group.collectives();
                seat();
                if (how.ownData) {
                    share = OwnRows.share(collectives, rank, state.rows());
                }
                if (fresh && rank == 0) {
                    // Another may have been rank 0 when training began.
                    state.resume();
                }
                int source = StateExchange.alike(collectives, rank, state, fresh);
                LOG.log(Level.DEBUG, "rank {0} of {1} begins at step {2} with the state of rank {3}", rank, world,
                        state.step(), source);
                fresh = false;
                // All but those who have just joined know the order; it is found out again.
                order = null;
                broken = null;
                stops = false;
                int told = 1 + parameters.size() + world;
                DeviceReducer onDevices = world == 1 ? null : DeviceReducer.join(group, device(), how.onDevices, told,
                        patience);
                buckets = new Buckets(bytes -> onDevices != null ? onDevices : throughHost(bytes), parameters, how.wire,
                        told, new int[0], how.bucketBytes);
                throughput = how.proportional && world > 1 ? new Throughput(world) : null;
                return;
            } catch (PeerLostException | MembershipChangedException e) {
                awaitNextEpoch(e);
            }
        }
    }

    private Reducer throughHost(long bytes) {
        Device device = device();
        return device.backend().hostVisible() ? new HostReducer(collectives, bytes)
                : new StagedReducer(collectives, device, bytes, patience);
    }

    /** Returns where all parameters are, or the CPU where they are not all in one place. */
    private Device device() {
        List<Device> all = parameters.stream().map(p -> p.value().device()).distinct().toList();
        return all.size() == 1 ? all.getFirst() : Device.cpu();
    }

    private void awaitNextEpoch(DistributedException cause) {
        close();
        if (!how.elastic) {
            throw cause;
        }
        LOG.log(Level.INFO, "rank {0} of {1}, at step {2}: {3}; goes on with those who are left", rank, world,
                state.step(), cause.getMessage());
        group.reform(patience);
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
        if (broken == null) {
            try {
                buckets.put(index, gradient);
            } catch (PeerLostException | MembershipChangedException e) {
                // Is dealt with when the backward pass is over.
                broken = e;
            }
        }
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        try {
            if (broken != null) {
                throw broken;
            }
            tell();
            buckets.complete();
            buckets.await(patience);
        } catch (PeerLostException | MembershipChangedException e) {
            recover(e);
            return false;
        }
        hearOfFrozen();
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = buckets.vector(1 + i) % FROZEN > 0 ? buckets.reduced(i) : null;
        }
        hear();
        return true;
    }

    /** Writes what the others are to know of this rank: a wish to stop, which gradients it has, how fast it is. */
    private void tell() {
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

    /** Requires that the same parameters are frozen on all ranks, or ranks would come to differ. */
    private void hearOfFrozen() {
        for (int i = 0; i < parameters.size(); i++) {
            int count = (int) buckets.vector(1 + i) / FROZEN;
            if (count > 0 && count < world) {
                throw new DistributedException(state.optimizer().path(i) + " is frozen on " + count + " of " + world
                        + " ranks" + (parameters.get(i).requiresGradient() ? ", not" : ", also") + " on rank "
                        + rank + "; freeze and unfreeze parameters on all ranks between the same two steps");
            }
            if (count > 0 != frozen[i]) {
                frozen[i] = count > 0;
                // Gradients come in another order from now on.
                order = null;
            }
        }
    }

    private void hear() {
        stops = buckets.vector(0) > 0;
        if (throughput != null) {
            for (int r = 0; r < world; r++) {
                throughput.rate(r, buckets.vector(1 + parameters.size() + r));
            }
            if (throughput.step()) {
                share = throughput.share(rank);
                LOG.log(Level.DEBUG, "rank {0} now takes {1}", rank, share);
            }
        }
    }

    @Override
    public void afterStep() {
        if (order == null) {
            try {
                adoptOrder();
            } catch (PeerLostException | MembershipChangedException e) {
                recover(e);
                return;
            }
        }
        buckets.reset();
    }

    /** Lays buckets out as gradients came on rank 0 in the step before. */
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
            // Who has come here has all results that it needs of the others.
            collectives.barrier().await(patience);
        } catch (PeerLostException | MembershipChangedException e) {
            LOG.log(Level.DEBUG, "rank {0} ends last: {1}", rank, e.getMessage());
        }
    }

    /** Gives the buckets' memory back. */
    @Override
    public void close() {
        if (buckets != null) {
            buckets.close();
            buckets = null;
        }
    }

    /** Gathers how ranks train together; the same on all ranks. */
    public static final class Builder {
        private final Group group;
        private DType wire = DType.F32;
        private long bucketBytes = 4 << 20;
        private boolean proportional;
        private boolean elastic;
        private boolean ownData;
        private boolean onDevices = true;

        private Builder(Group group) {
            this.group = group;
        }

        /**
         * Sends f32 gradients as bf16: half the bytes, 8 bits of precision. Sums are kept in f32 and rounded once.
         */
        public Builder halfPrecision() {
            wire = DType.BF16;
            return this;
        }

        /** Sets how many bytes of gradients are reduced at a time; 4 MiB unless told. */
        public Builder bucketBytes(long bytes) {
            if (bytes < 1) {
                throw TensorException.argument("ring", "a bucket needs a byte or more, got " + bytes, "give 1 or more");
            }
            bucketBytes = bytes;
            return this;
        }

        /**
         * Divides batches in proportion to what each rank was measured to compute, instead of evenly. Two runs are then
         * equal to within rounding only.
         */
        public Builder proportional() {
            proportional = true;
            return this;
        }

        /**
         * Trains on rows that each rank has for itself: a batch takes of each rank's rows the same fraction, so that an
         * epoch takes each row of each rank once, however uneven their numbers are ({@link Share.OwnPart}). Rows of a
         * rank that is lost are missing from then on.
         */
        public Builder ownData() {
            ownData = true;
            return this;
        }

        /** Goes on without ranks that are lost, and with those that join; the coordinator has to re-form, too. */
        public Builder elastic() {
            elastic = true;
            return this;
        }

        /** Adds gradients up in the host's memory also where devices could do it among themselves. */
        public Builder throughHost() {
            onDevices = false;
            return this;
        }

        /**
         * Makes the strategy.
         *
         * @throws TensorException if batches are to be divided by speed that consist of each rank's own rows
         */
        public RingAllReduce build() {
            if (ownData && proportional) {
                throw TensorException.argument("ring", "proportional() divides batches by speed, but with ownData() "
                        + "each rank takes its own rows", "leave one of them out");
            }
            return new RingAllReduce(group, this);
        }
    }
}
