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
 * Gradients in memory that all ranks of an epoch reduce, bucket by bucket as they fill. With them goes a vector of
 * numbers about each rank, which fills last. A step allocates nothing.
 */
final class Buckets implements AutoCloseable {
    private static final Update.Assign ASSIGN = new Update.Assign();

    private final List<Parameter> parameters;
    private final long limit;
    /** By parameter; the last one is the vector. */
    private final List<BucketPlan.Entry> entries = new ArrayList<>();
    private final Reducer reducer;
    private final boolean[] filled;
    /** Which gradients came, as they came. */
    private final int[] arrivals;
    private int arrived;
    private BucketPlan plan;
    private Tensor[] slots;
    private MemorySegment vector;
    /** By bucket, how many entries it still waits for. */
    private int[] missing;
    private int started;

    /**
     * Takes memory. Collective.
     *
     * @param memory returns that of a number of bytes
     * @param wire what f32 gradients are sent as
     * @param vectorSize how many f32 numbers go with them
     * @param order in which gradients are expected
     * @param limit of a bucket, in bytes
     */
    Buckets(LongFunction<Reducer> memory, List<Parameter> parameters, DType wire, int vectorSize, int[] order,
            long limit) {
        this.parameters = parameters;
        this.limit = limit;
        for (Parameter p : parameters) {
            DType dtype = p.value().dtype();
            entries.add(new BucketPlan.Entry(dtype == DType.F32 ? wire : dtype, p.shape().count()));
        }
        entries.add(new BucketPlan.Entry(DType.F32, vectorSize));
        filled = new boolean[entries.size()];
        arrivals = new int[parameters.size()];
        plan = BucketPlan.of(entries, complete(order, parameters.size()), limit);
        // Entries take the same room in any order.
        reducer = memory.apply(plan.bytes());
        prepare();
    }

    /** Returns an order that names every gradient once, those that are not in {@code known} last, then the vector. */
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

    /** Begins a step; what {@link #reduced} returned before is overwritten from now on. */
    void reset() {
        Arrays.fill(filled, false);
        started = 0;
        arrived = 0;
        for (int b = 0; b < missing.length; b++) {
            missing[b] = plan.buckets().get(b).entries();
        }
    }

    /** Lays buckets out anew, all ranks alike, for gradients that come in another order. */
    void reorder(int[] order) {
        plan = BucketPlan.of(entries, complete(order, parameters.size()), limit);
        prepare();
    }

    /** Returns the gradients that have come in this step, as they came. */
    int[] arrivals() {
        return Arrays.copyOf(arrivals, arrived);
    }

    /** Copies a gradient to where it is reduced, and starts what is complete. */
    void put(int index, Tensor gradient) {
        if (filled[index]) {
            throw new DistributedException("gradient " + index + " came twice; after a step that failed, start anew");
        }
        Tensor.apply(ASSIGN, slots[index], gradient.to(reducer.device()));
        arrivals[arrived++] = index;
        fill(index);
    }

    private void fill(int entry) {
        filled[entry] = true;
        missing[plan.places().get(entry).bucket()]--;
        // Every rank starts them in this order, whichever is full first.
        while (started < missing.length && missing[started] == 0) {
            reducer.start(started++);
        }
    }

    /** Tells whether a gradient has come in this step. */
    boolean isFilled(int index) {
        return filled[index];
    }

    /** Completes the step: gradients that did not come count as 0, and the vector is as it should be. */
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
    void await(Duration atMost) {
        reducer.await(atMost);
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

    /** Gives the memory back. What is under way on it ends, for this rank with all that it does in this epoch. */
    @Override
    public void close() {
        reducer.close();
    }
}
