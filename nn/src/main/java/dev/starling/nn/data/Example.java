package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/**
 * The row of a batch into which a {@link Dataset} writes one example. Each worker has one and moves it from row to row.
 */
public final class Example {
    private final List<Field> fields;
    private final float[][] scratch;
    /** Which fields of this example a data set has written, or asked for the memory of. */
    private final boolean[] written;
    private final long seed;
    private final int depth;
    /** Set by {@link #moveTo}, which precedes every use. */
    @SuppressWarnings("NullAway.Init")
    private Rows batch;
    private int row;

    Example(List<Field> fields, long seed) {
        this(fields, seed, 0);
    }

    Example(List<Field> fields, long seed, int depth) {
        this.fields = fields;
        this.scratch = new float[fields.size()][];
        this.written = new boolean[fields.size()];
        this.seed = seed;
        this.depth = depth;
    }

    void moveTo(Rows newBatch, int newRow) {
        batch = newBatch;
        row = newRow;
    }

    /** Makes a data set write this example. What it left out would be that of an earlier batch. */
    void fill(Dataset dataset, int index) throws Exception {
        Arrays.fill(written, false);
        dataset.write(index, this);
        for (int i = 0; i < written.length; i++) {
            if (!written[i] && fields.get(i).length() != Field.Length.MASK) {
                throw TensorException.argument("example", "nothing was written to field " + i + ", "
                        + fields.get(i).dtype() + fields.get(i).shape(), "put all fields of Dataset.fields()");
            }
        }
    }

    /** Returns the seed of the run. */
    public long seed() {
        return seed;
    }

    /** Returns 0 for an example of a batch, and 1 more for an example that is read to make another one. */
    int depth() {
        return depth;
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

    /** Returns the length of the rows of this batch in fields that vary, at least that of the example. */
    public int length() {
        return batch.length();
    }

    /**
     * Writes f32 field {@code field} from the start of {@code values}; all of them if the length of the field varies.
     */
    public void put(int field, float[] values) {
        require(field, DType.F32);
        MemorySegment.copy(values, 0, segment(field), ValueLayout.JAVA_FLOAT, offset(field),
                count(field, values.length));
    }

    /**
     * Writes i64 field {@code field} from the start of {@code values}; all of them if the length of the field varies.
     */
    public void put(int field, long[] values) {
        require(field, DType.I64);
        MemorySegment.copy(values, 0, segment(field), ValueLayout.JAVA_LONG, offset(field),
                count(field, values.length));
    }

    /** Returns how many of some values a field takes. */
    private int count(int field, int values) {
        Field f = fields.get(field);
        if (f.length() == Field.Length.FIXED) {
            return Math.toIntExact(f.shape().count());
        }
        if (values > f.shape(batch.length()).count()) {
            throw TensorException.argument("example", values + " values are more than Dataset.length states; the batch "
                    + "has rows " + f.shape(batch.length()), "return the length of the example");
        }
        return values;
    }

    /** Fills the fields that vary with padding, and writes masks. */
    void pad(Dataset dataset, int index) {
        for (int i = 0; i < fields.size(); i++) {
            Field f = fields.get(i);
            if (f.length() != Field.Length.FIXED) {
                MemorySegment row = batch.segment(i).asSlice(offset(i), f.bytes(batch.length()));
                row.fill((byte) 0);
                if (f.length() == Field.Length.MASK) {
                    row.asSlice(0, dataset.length(index)).fill((byte) 1);
                } else if (f.padding() != 0) {
                    pad(row, f);
                }
            }
        }
    }

    private static void pad(MemorySegment row, Field field) {
        long count = row.byteSize() / field.dtype().bytes();
        for (long i = 0; i < count; i++) {
            switch (field.dtype()) {
                case F32 -> row.setAtIndex(ValueLayout.JAVA_FLOAT_UNALIGNED, i, (float) field.padding());
                case F64 -> row.setAtIndex(ValueLayout.JAVA_DOUBLE_UNALIGNED, i, field.padding());
                case I32 -> row.setAtIndex(ValueLayout.JAVA_INT_UNALIGNED, i, (int) field.padding());
                case I64 -> row.setAtIndex(ValueLayout.JAVA_LONG_UNALIGNED, i, (long) field.padding());
                case F16, BF16, I8, U8, BOOL -> throw new AssertionError("the field refuses this padding");
            }
        }
    }

    /** Writes i64 field {@code field}, which has one element. */
    public void put(int field, long value) {
        require(field, DType.I64);
        Field f = fields.get(field);
        if (f.length() == Field.Length.FIXED && f.shape().count() != 1) {
            throw TensorException.argument("example", "field " + field + " is " + f.dtype() + f.shape()
                    + ", got one element", "pass all elements as an array");
        }
        segment(field).set(ValueLayout.JAVA_LONG, offset(field), value);
    }

    /** Returns the memory of field {@code field} of the whole batch: native, in native byte order. */
    public MemorySegment segment(int field) {
        written[field] = true;
        return batch.segment(field);
    }

    /** Returns the offset of this example in {@link #segment}, in bytes. */
    public long offset(int field) {
        return row * fields.get(field).bytes(batch.length());
    }

    private void require(int field, DType dtype) {
        if (fields.get(field).dtype() != dtype) {
            throw TensorException.argument("example", "field " + field + " is " + fields.get(field).dtype() + ", not "
                    + dtype, "write it through segment(" + field + ")");
        }
    }
}
