package dev.starling.distributed.bucket;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.group.Membership;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Sums gradients over the ranks of one membership epoch, bucket by bucket, while the backward pass still runs. For
 * synchronous strategies: {@link dev.starling.distributed.ring.RingAllReduce} and those of a user's own. A strategy
 * that {@linkplain dev.starling.nn.train.StreamsGradients streams gradients} uses it like this:
 *
 * <pre>{@code
 * buckets = Buckets.over(group, collectives, state.optimizer()).numbers(1).open();   // in each membership epoch
 * buckets.gradient(index, gradient);                                                 // gradient
 * buckets.number(0, requestsStop ? 1 : 0);                                           // beforeStep
 * buckets.sum(gradients);
 * stops = buckets.number(0) > 0;
 * buckets.next();                                                                    // afterStep
 * }</pre>
 *
 * <p>Gradients may have any strides, types and devices, arrive in any order, and be absent on some ranks, where they
 * count as 0. Buckets fill in the order in which gradients arrived on rank 0 in the first step, so that each is reduced
 * while the next ones fill. With the gradients travels a vector of numbers, which are summed exactly. A step allocates
 * nothing but what copies of gradients need. Confined to the training thread.
 */
public final class Buckets implements AutoCloseable {
    /** In the vector: a parameter is frozen. Larger than the number of ranks, and a power of 2: its sum is exact. */
    private static final int FROZEN = 8192;
    private static final Update.Assign ASSIGN = new Update.Assign();

    private final Optimizer optimizer;
    private final List<Parameter> parameters;
    /** {@code null} in tests of one process. */
    private final @Nullable Collectives collectives;
    private final int rank;
    private final int world;
    private final Duration timeout;
    private final long limit;
    /** Whether a codec may hold back parts of gradients, which it adds to the sums of later steps. */
    private final boolean holdsBack;
    /** One entry for each parameter; the last one is the vector. */
    private final List<BucketPlan.Entry> entries = new ArrayList<>();
    private final Reducer reducer;
    private final boolean[] filled;
    /** For each parameter whether it was frozen in the last step. */
    private final boolean[] frozen;
    /** Numbers of the gradients, in the order of their arrival. */
    private final int[] arrivals;
    private int arrived;
    /** Whether buckets are in the order in which gradients arrive. */
    private boolean ordered;
    private BucketPlan plan;
    private Tensor[] slots = {};
    private MemorySegment vector = MemorySegment.NULL;
    /** For each bucket the number of missing entries. */
    private int[] missing = {};
    private int started;
    /** A failure during the backward pass, which is thrown after it. */
    private @Nullable DistributedException pendingFailure;

    /**
     * Allocates memory. Collective.
     *
     * @param memory creates a reducer with memory of a number of bytes
     */
    Buckets(Builder builder, @Nullable Collectives collectives, int rank, int world, Duration timeout,
            LongFunction<Reducer> memory) {
        optimizer = builder.optimizer;
        parameters = optimizer.parameters();
        this.collectives = collectives;
        this.rank = rank;
        this.world = world;
        this.timeout = timeout;
        limit = builder.bucketBytes;
        holdsBack = builder.codec != null;
        for (Parameter p : parameters) {
            DType dtype = p.value().dtype();
            entries.add(new BucketPlan.Entry(dtype == DType.F32 ? builder.wireType : dtype, p.shape().count()));
        }
        entries.add(new BucketPlan.Entry(DType.F32, vectorSize(parameters, builder.numbers)));
        filled = new boolean[entries.size()];
        frozen = new boolean[parameters.size()];
        arrivals = new int[parameters.size()];
        plan = BucketPlan.of(entries, complete(new int[0], parameters.size()), limit);
        // The total size does not depend on the order of entries.
        reducer = memory.apply(plan.bytes());
        try {
            prepare();
        } catch (RuntimeException e) {
            reducer.close();
            throw e;
        }
    }

    /**
     * Begins the configuration of buckets for an optimiser's gradients.
     *
     * @param collectives of the membership epoch; {@link dev.starling.distributed.epoch.MembershipEpochs} passes them
     */
    public static Builder over(Group group, Collectives collectives, Optimizer optimizer) {
        return new Builder(group, collectives, optimizer);
    }

    /** Returns the length of the vector: one number for each parameter, and those of the strategy. */
    private static int vectorSize(List<Parameter> parameters, int numbers) {
        return parameters.size() + numbers;
    }

    /** Returns an order with every gradient once, those that are not in {@code known} last, then the vector. */
    private static int[] complete(int[] known, int gradients) {
        int[] order = Arrays.copyOf(known, gradients + 1);
        int n = known.length;
        for (int i = gradients - 1; i >= 0; i--) {
            int index = i;
            if (Arrays.stream(known).noneMatch(k -> k == index)) {
                order[n++] = index;
            }
        }
        order[n] = gradients;
        return order;
    }

    private void prepare() {
        reducer.prepare(plan);
        slots = new Tensor[parameters.size()];
        for (int i = 0; i < slots.length; i++) {
            slots[i] = reducer.slot(i, parameters.get(i).shape());
        }
        vector = reducer.vector();
        missing = new int[plan.buckets().size()];
        reset();
    }

    private void reset() {
        Arrays.fill(filled, false);
        started = 0;
        arrived = 0;
        for (int b = 0; b < missing.length; b++) {
            missing[b] = plan.buckets().get(b).entries();
        }
    }

    /** Creates new buckets for gradients in another order. Collective: all ranks pass the same order. */
    void reorder(int[] order) {
        plan = BucketPlan.of(entries, complete(order, parameters.size()), limit);
        prepare();
    }

    // ---- a step ----

    /**
     * Copies a gradient into its bucket, and starts to reduce all buckets that are complete. Does not wait. If a member
     * was lost, {@link #sum} throws the exception, after the backward pass.
     *
     * @param index index of the parameter in the optimiser's list
     * @param gradient of the parameter's shape; with any strides
     * @throws DistributedException if the gradient has arrived in this step before
     */
    public void gradient(int index, Tensor gradient) {
        if (pendingFailure != null) {
            return;
        }
        if (filled[index]) {
            throw new DistributedException("gradient " + index + " arrived twice in a step; after a failed step, start"
                    + " the training again");
        }
        Tensor.apply(ASSIGN, slots[index], gradient.to(reducer.device()));
        arrivals[arrived++] = index;
        try {
            fill(index);
        } catch (PeerLostException | MembershipChangedException e) {
            pendingFailure = e;
        }
    }

    private void fill(int entry) {
        filled[entry] = true;
        missing[plan.places().get(entry).bucket()]--;
        // Every rank starts buckets in this order, whichever is full first.
        while (started < missing.length && missing[started] == 0) {
            reducer.start(started++);
        }
    }

    /** Sets this rank's number to be summed over ranks in this step, to be called before {@link #sum}. */
    public void number(int i, float value) {
        vector.setAtIndex(ValueLayout.JAVA_FLOAT, parameters.size() + i, value);
    }

    /** Returns the sum over ranks of a number, after {@link #sum}. */
    public float number(int i) {
        return vector.getAtIndex(ValueLayout.JAVA_FLOAT, parameters.size() + i);
    }

    /**
     * Completes the step: waits until everything is summed, and replaces gradients by their sums over ranks.
     *
     * @param gradients by index in the optimiser's list; {@code null} afterwards where no rank has one, and a codec has
     *     added nothing that it held back in earlier steps. The tensors are overwritten after {@link #next}
     * @throws DistributedException if a parameter is frozen on some ranks only, because ranks would diverge;
     *     {@link PeerLostException} or {@link MembershipChangedException} if the epoch has ended
     */
    public void sum(@Nullable Tensor[] gradients) {
        if (pendingFailure != null) {
            throw pendingFailure;
        }
        for (int i = 0; i < slots.length; i++) {
            vector.setAtIndex(ValueLayout.JAVA_FLOAT, i, !parameters.get(i).requiresGradient() ? FROZEN
                    : filled[i] ? 1 : 0);
        }
        complete();
        reducer.await(timeout);
        checkFrozen();
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = count(i) % FROZEN > 0 || holdsBack && count(i) == 0 && hasSum(i) ? reduced(i) : null;
        }
    }

    /** Returns whether a codec has summed what it held back in earlier steps; the same on all ranks. */
    private boolean hasSum(int index) {
        MemorySegment sum = slots[index].readOnlySegment();
        // Sums of other types than f32, which no codec reduces, are 0.
        for (long i = 0; i < sum.byteSize() / Float.BYTES; i++) {
            if (sum.getAtIndex(ValueLayout.JAVA_FLOAT, i) != 0) {
                return true;
            }
        }
        return false;
    }

    /** Missing gradients count as 0, and the vector is final. */
    void complete() {
        for (int i = 0; i < slots.length; i++) {
            if (!filled[i]) {
                reducer.clear(i);
                fill(i);
            }
        }
        fill(slots.length);
    }

    /** Returns on how many ranks a gradient is present, and {@link #FROZEN} times on how many it is frozen. */
    private int count(int index) {
        return (int) vector.getAtIndex(ValueLayout.JAVA_FLOAT, index);
    }

    private void checkFrozen() {
        for (int i = 0; i < slots.length; i++) {
            int count = count(i) / FROZEN;
            if (count > 0 && count < world) {
                throw new DistributedException(optimizer.path(i) + " is frozen on " + count + " of " + world
                        + " ranks" + (parameters.get(i).requiresGradient() ? ", not" : ", also") + " on rank "
                        + rank + "; freeze and unfreeze parameters on all ranks between the same two steps");
            }
            if (count > 0 != frozen[i]) {
                frozen[i] = count > 0;
                // Gradients arrive in another order from now on.
                ordered = false;
            }
        }
    }

    /** Returns the sum over ranks: a view, where type and device allow it. */
    private Tensor reduced(int index) {
        Tensor parameter = parameters.get(index).value();
        return slots[index].to(parameter.dtype()).to(parameter.device());
    }

    /**
     * Begins the next step; tensors that {@link #sum} has returned are overwritten from now on. Collective and waiting
     * after the first step, and after parameters were frozen or unfrozen.
     */
    public void next() {
        if (!ordered && collectives != null) {
            adoptOrder(collectives);
        }
        reset();
    }

    /** Orders buckets by the arrival of gradients on rank 0 in the previous step. */
    private void adoptOrder(Collectives all) {
        int[] order;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ints = arena.allocate(ValueLayout.JAVA_INT, 1 + parameters.size());
            ints.set(ValueLayout.JAVA_INT, 0, arrived);
            MemorySegment.copy(arrivals, 0, ints, ValueLayout.JAVA_INT, Integer.BYTES, arrived);
            all.broadcast(ints, 0);
            order = new int[ints.get(ValueLayout.JAVA_INT, 0)];
            MemorySegment.copy(ints, ValueLayout.JAVA_INT, Integer.BYTES, order, 0, order.length);
        }
        ordered = true;
        reorder(order);
    }

    /** Releases the memory. A pending reduction ends, and with it this rank's participation in the epoch. */
    @Override
    public void close() {
        reducer.close();
    }

    /** Collects the configuration, which must be the same on all ranks. */
    public static final class Builder {
        private final Group group;
        private final Collectives collectives;
        private final Optimizer optimizer;
        private DType wireType = DType.F32;
        private @Nullable GradientCodec codec;
        private long bucketBytes = 4 << 20;
        private int numbers;
        private boolean onDevices = true;

        Builder(Group group, Collectives collectives, Optimizer optimizer) {
            this.group = group;
            this.collectives = collectives;
            this.optimizer = optimizer;
        }

        /** Sets the type in which f32 gradients are sent: f32, or bf16, whose sums are kept in f32 and rounded once. */
        public Builder wireType(DType type) {
            if (type != DType.F32 && type != DType.BF16) {
                throw TensorException.argument("buckets", "f32 gradients are sent as f32 or bf16, got " + type,
                        "choose one of these");
            }
            wireType = type;
            return this;
        }

        /**
         * Sets what sums the f32 gradients of each bucket where there are several ranks; {@code null} for a plain
         * all-reduce.
         */
        public Builder codec(@Nullable GradientCodec newCodec) {
            codec = newCodec;
            return this;
        }

        /** Sets the number of bytes of gradients that are reduced together; the default is 4 MiB. */
        public Builder bucketBytes(long bytes) {
            if (bytes < 1) {
                throw TensorException.argument("buckets", "bucketBytes >= 1 must hold, got " + bytes, "set 1 or more");
            }
            bucketBytes = bytes;
            return this;
        }

        /** Sets how many numbers the strategy sums in each step; the default is none. */
        public Builder numbers(int count) {
            numbers = count;
            return this;
        }

        /** Sets whether devices may sum gradients among themselves; the default is {@code true}. */
        public Builder onDevices(boolean allowed) {
            onDevices = allowed;
            return this;
        }

        /**
         * Allocates memory in the membership epoch. Collective; waits.
         *
         * @throws TensorException if both a codec and bf16 are set
         * @throws DistributedException if ranks have different settings
         */
        public Buckets open() {
            if (codec != null && wireType != DType.F32) {
                throw TensorException.argument("buckets", "a codec receives f32 gradients, but they are sent as "
                        + wireType, "leave one of them out");
            }
            Membership members = Membership.of(group);
            Duration timeout = members.config().timeout();
            int world = members.world();
            requireSameSettings(collectives.exchange(settings().getBytes(StandardCharsets.UTF_8)));
            List<Parameter> parameters = optimizer.parameters();
            Device device = device(parameters);
            DeviceReducer among = world == 1 || codec != null ? null : DeviceReducer.join(members, collectives, device,
                    onDevices, vectorSize(parameters, numbers), timeout);
            List<Shape> shapes = parameters.stream().map(Parameter::shape).toList();
            return new Buckets(this, collectives, members.rank(), world, timeout, bytes -> among != null ? among
                    : codec != null || device.backend().hostVisible()
                            ? new HostReducer(collectives, members.rank(), world, shapes, world == 1 ? null : codec,
                                    bytes)
                            : new StagedReducer(collectives, device, bytes, timeout));
        }

        /** Returns what must be the same on all ranks. A codec that is no record has no text to compare. */
        private String settings() {
            String by = codec == null ? "an all-reduce" : codec instanceof Record ? codec.toString() : "its own codec";
            return "sums gradients as " + wireType + " by " + by + ", in buckets of " + bucketBytes + " bytes";
        }

        private static void requireSameSettings(byte[][] settings) {
            for (int r = 1; r < settings.length; r++) {
                if (!Arrays.equals(settings[r], settings[0])) {
                    throw new DistributedException("rank " + r + " " + new String(settings[r], StandardCharsets.UTF_8)
                            + ", rank 0 " + new String(settings[0], StandardCharsets.UTF_8)
                            + "; use the same settings on all ranks");
                }
            }
        }

        /** Returns the device of all parameters, or the CPU if they are on several devices. */
        private static Device device(List<Parameter> parameters) {
            List<Device> all = parameters.stream().map(p -> p.value().device()).distinct().toList();
            return all.size() == 1 ? all.getFirst() : Device.cpu();
        }
    }
}
