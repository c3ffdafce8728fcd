package dev.starling.distributed.ring;

import dev.starling.distributed.DistributedException;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongFunction;

/**
 * Gradients in memory that all ranks of an epoch reduce, bucket by bucket as the buckets fill. With them travels a
 * vector of numbers about each rank, which fills last. A step allocates nothing.
 */
final class Buckets implements AutoCloseable {
    private static final Update.Assign ASSIGN = new Update.Assign();

    private final List<Parameter> parameters;
    private final long limit;
    /** One entry for each parameter; the last one is the vector. */
    private final List<BucketPlan.Entry> entries = new ArrayList<>();
    private final Reducer reducer;
    private final boolean[] filled;
    /** Numbers of the gradients, in the order of their arrival. */
    private final int[] arrivals;
    private int arrived;
    private BucketPlan plan;
    private Tensor[] slots;
    private MemorySegment vector;
    /** For each bucket the number of missing entries. */
    private int[] missing;
    private int started;

    /**
     * Allocates memory. Collective.
     *
     * @param memory creates a reducer with memory of a number of bytes
     * @param wireType type in which f32 gradients are sent
     * @param vectorSize number of f32 values in the vector
     * @param order in which gradients are expected
     * @param limit of a bucket, in bytes
     */
    Buckets(LongFunction<Reducer> memory, List<Parameter> parameters, DType wireType, int vectorSize, int[] order,
            long limit) {
        this.parameters = parameters;
        this.limit = limit;
        for (Parameter p : parameters) {
            DType dtype = p.value().dtype();
            entries.add(new BucketPlan.Entry(dtype == DType.F32 ? wireType : dtype, p.shape().count()));
        }
        entries.add(new BucketPlan.Entry(DType.F32, vectorSize));
        filled = new boolean[entries.size()];
        arrivals = new int[parameters.size()];
        plan = BucketPlan.of(entries, complete(order, parameters.size()), limit);
        // The total size does not depend on the order of entries.
        reducer = memory.apply(plan.bytes());
        prepare();
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

    /** Begins a step; tensors that {@link #reduced} returned before are overwritten from now on. */
    void reset() {
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

    /** Returns the gradients that have arrived in this step, in the order of their arrival. */
    int[] arrivals() {
        return Arrays.copyOf(arrivals, arrived);
    }

    /** Copies a gradient into its bucket, and starts all buckets that are complete. */
    void put(int index, Tensor gradient) {
        if (filled[index]) {
            throw new DistributedException("gradient " + index + " arrived twice in a step; after a failed step, start"
                    + " the training again");
        }
        Tensor.apply(ASSIGN, slots[index], gradient.to(reducer.device()));
        arrivals[arrived++] = index;
        fill(index);
    }

    private void fill(int entry) {
        filled[entry] = true;
        missing[plan.places().get(entry).bucket()]--;
        // Every rank starts buckets in this order, whichever is full first.
        while (started < missing.length && missing[started] == 0) {
            reducer.start(started++);
        }
    }

    /** Returns whether a gradient has arrived in this step. */
    boolean isFilled(int index) {
        return filled[index];
    }

    /** Completes the step: missing gradients count as 0, and the vector is final. */
    void complete() {
        for (int i = 0; i < slots.length; i++) {
            if (!filled[i]) {
                reducer.clear(i);
                fill(i);
            }
        }
        fill(slots.length);
    }

    /** Waits until everything is reduced. */
    void await(Duration timeout) {
        reducer.await(timeout);
    }

    void vector(int i, float value) {
        vector.setAtIndex(ValueLayout.JAVA_FLOAT, i, value);
    }

    float vector(int i) {
        return vector.getAtIndex(ValueLayout.JAVA_FLOAT, i);
    }

    /** Returns the sum over ranks: a view, where type and device allow it. */
    Tensor reduced(int index) {
        Tensor parameter = parameters.get(index).value();
        return slots[index].to(parameter.dtype()).to(parameter.device());
    }

    /** Releases the memory. A pending reduction ends, and with it this rank's participation in the epoch. */
    @Override
    public void close() {
        reducer.close();
    }
}
