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

    private final List<Field> fields;
    private final MemorySegment[] segments;
    /** For each number of rows that was needed so far the tensors of all fields. */
    private Tensor[][] tensors = new Tensor[0][];
    private EpochPlan plan;
    private int number;
    private int size;
    private int rows;
    /** What went wrong while this batch was made; written by the worker before it publishes the batch. */
    LoadException failure;

    Batch(List<Field> fields) {
        this.fields = fields;
        segments = new MemorySegment[fields.size()];
    }

    /** Makes this slot stand for batch {@code newNumber} of an epoch. */
    void assign(EpochPlan newPlan, int newNumber) {
        plan = newPlan;
        number = newNumber;
        size = newPlan.size(newNumber);
        rows = newPlan.rows(newNumber);
        failure = null;
        if (size >= tensors.length) {
            grow(Math.min(newPlan.batchSize(), size + size / 4));
        }
        if (tensors[size] == null) {
            tensors[size] = new Tensor[segments.length];
            for (int i = 0; i < segments.length; i++) {
                Field field = fields.get(i);
                tensors[size][i] = Tensor.wrap(segments[i], field.dtype(), field.shape().insert(0, size).dims());
            }
        }
    }

    private void grow(int capacity) {
        tensors = new Tensor[capacity + 1][];
        for (int i = 0; i < segments.length; i++) {
            // Freed when neither loader nor tensor is reachable, so that a late reader finds old data, not a fault.
            segments[i] = Arena.ofAuto().allocate(Math.max(1, fields.get(i).bytes() * capacity), ALIGNMENT);
        }
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

    /** Returns the number of examples; 0 if none of them are this process's. */
    public int size() {
        return size;
    }

    /** Returns the number of examples of the batch on all ranks that share it. */
    public int rows() {
        return rows;
    }

    /** Returns a field of all examples, {@code [size, *field]}, on the CPU. */
    public Tensor tensor(int field) {
        return tensors[size][field];
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
