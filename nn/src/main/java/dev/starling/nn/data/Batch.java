package dev.starling.nn.data;

import dev.starling.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Examples side by side, in memory that the loader uses again: valid until the next batch is asked for. A tensor that
 * is needed longer is copied.
 */
public final class Batch {
    private static final long ALIGNMENT = 64;

    private final MemorySegment[] segments;
    /** The tensors of a full batch, and of the smaller one that ends an epoch. */
    private final Tensor[] full;
    private final Tensor[] rest;
    private final int fullSize;
    private final int restSize;
    private EpochPlan plan;
    private int number;
    private boolean isRest;
    /** What went wrong while this batch was made; written by the worker before it publishes the batch. */
    LoadException failure;

    Batch(List<Field> fields, int fullSize, int restSize) {
        this.fullSize = fullSize;
        this.restSize = restSize;
        segments = new MemorySegment[fields.size()];
        full = new Tensor[fields.size()];
        rest = new Tensor[fields.size()];
        for (int i = 0; i < segments.length; i++) {
            Field field = fields.get(i);
            // Freed when neither loader nor tensor is reachable, so that a late reader finds old data, not a fault.
            segments[i] = Arena.ofAuto().allocate(Math.max(1, field.bytes() * fullSize), ALIGNMENT);
            full[i] = Tensor.wrap(segments[i], field.dtype(), field.shape().insert(0, fullSize).dims());
            rest[i] = Tensor.wrap(segments[i], field.dtype(), field.shape().insert(0, restSize).dims());
        }
    }

    /** Makes this slot stand for batch {@code newNumber} of an epoch. */
    void assign(EpochPlan newPlan, int newNumber) {
        plan = newPlan;
        number = newNumber;
        isRest = newPlan.size(newNumber) != fullSize;
        failure = null;
    }

    MemorySegment segment(int field) {
        return segments[field];
    }

    /** Returns the index in the data set of example {@code i} of this batch. */
    public int index(int i) {
        return plan.index(number, i);
    }

    /** Returns the number of the pass over the data. */
    public int epoch() {
        return plan.epoch();
    }

    /** Returns the number of this batch in its epoch. */
    public int number() {
        return number;
    }

    /** Returns the number of examples. */
    public int size() {
        return isRest ? restSize : fullSize;
    }

    /** Returns a field of all examples, {@code [size, *field]}, on the CPU. */
    public Tensor tensor(int field) {
        return isRest ? rest[field] : full[field];
    }

    /** Returns the first field: what the model is given. */
    public Tensor input() {
        return tensor(0);
    }

    /** Returns the last field: what the model should make of it. */
    public Tensor target() {
        return tensor(segments.length - 1);
    }
}
