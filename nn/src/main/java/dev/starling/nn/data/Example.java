package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * The row of a batch into which a {@link Dataset} writes one example. Each worker has one and moves it from row to row.
 */
public final class Example {
    private final List<Field> fields;
    private final float[][] scratch;
    private final long seed;
    /** Set by {@link #moveTo}, which precedes every use. */
    @SuppressWarnings("NullAway.Init")
    private BatchSlot batch;
    private int row;

    Example(List<Field> fields, long seed) {
        this.fields = fields;
        this.scratch = new float[fields.size()][];
        this.seed = seed;
    }

    void moveTo(BatchSlot newBatch, int newRow) {
        batch = newBatch;
        row = newRow;
    }

    /** Returns the seed of the run. */
    public long seed() {
        return seed;
    }

    /** Returns the number of the pass over the data. */
    public int epoch() {
        return batch.epoch();
    }

    /** Returns a scratch array of the worker, as large as f32 field {@code field}, to be filled before {@link #put}. */
    public float[] floats(int field) {
        if (scratch[field] == null) {
            scratch[field] = new float[Math.toIntExact(fields.get(field).shape().count())];
        }
        return scratch[field];
    }

    /** Writes f32 field {@code field} from the start of {@code values}. */
    public void put(int field, float[] values) {
        require(field, DType.F32);
        MemorySegment.copy(values, 0, segment(field), ValueLayout.JAVA_FLOAT, offset(field),
                Math.toIntExact(fields.get(field).shape().count()));
    }

    /** Writes i64 field {@code field}, which has one element. */
    public void put(int field, long value) {
        require(field, DType.I64);
        segment(field).set(ValueLayout.JAVA_LONG, offset(field), value);
    }

    /** Returns the memory of field {@code field} of the whole batch: native, in native byte order. */
    public MemorySegment segment(int field) {
        return batch.segment(field);
    }

    /** Returns the offset of this example in {@link #segment}, in bytes. */
    public long offset(int field) {
        return row * fields.get(field).bytes();
    }

    private void require(int field, DType dtype) {
        if (fields.get(field).dtype() != dtype) {
            throw TensorException.argument("example", "field " + field + " is " + fields.get(field).dtype() + ", not "
                    + dtype, "write it through segment(" + field + ")");
        }
    }
}
