package dev.starling.spark;

import dev.starling.spark.Columns.Column;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.bitset.BitSetMethods;

/** Copies the numbers of Spark's rows into the memory of tensors, and checks each. Confined to one thread. */
final class RowReader {
    private static final int VECTOR_FIELDS = 4;
    private static final int SIZE = 1;
    private static final int INDICES = 2;
    private static final int VALUES = 3;
    private static final byte SPARSE = 0;

    private final Columns columns;
    private final float[] input;
    private final int[] first;

    RowReader(Columns columns) {
        this.columns = columns;
        first = IntStream.range(0, columns.inputs().size()).toArray();
        input = new float[columns.width()];
    }

    /** Returns the size of one example in bytes. */
    static long bytes(Columns columns) {
        return columns.fields().stream().mapToLong(f -> f.bytes()).sum();
    }

    /** Returns the number of elements of a column's value. */
    static int width(ColumnType type, InternalRow row, int column) {
        return switch (type) {
            case BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE -> 1;
            case BYTES -> row.getBinary(column).length;
            case ARRAY_OF_BYTE, ARRAY_OF_SHORT, ARRAY_OF_INT, ARRAY_OF_LONG, ARRAY_OF_FLOAT, ARRAY_OF_DOUBLE ->
                    row.getArray(column).numElements();
            case VECTOR -> vectorSize(row.getStruct(column, VECTOR_FIELDS));
            case IMAGE, IMAGE_FILE -> throw new IllegalArgumentException(type + " has the width that the model takes");
        };
    }

    private static int vectorSize(InternalRow vector) {
        return vector.getByte(0) == SPARSE ? vector.getInt(SIZE) : vector.getArray(VALUES).numElements();
    }

    /**
     * Copies one row.
     *
     * @param where names the row in messages
     * @throws SparkDataException if a value is null, of another width, not finite or not a class
     */
    void read(InternalRow row, MemorySegment to, long offset, RowName where) {
        float[] values = input(row, first, where);
        MemorySegment.copy(values, 0, to, ValueLayout.JAVA_FLOAT_UNALIGNED, offset, values.length);
        Column target = columns.target();
        if (target == null) {
            return;
        }
        long at = offset + 4L * values.length;
        int place = columns.inputs().size();
        if (columns.isClass()) {
            to.set(ValueLayout.JAVA_LONG_UNALIGNED, at, classOf(row, target, place, where));
        } else {
            float[] numbers = new float[target.width()];
            copy(row, target, place, numbers, 0, where);
            MemorySegment.copy(numbers, 0, to, ValueLayout.JAVA_FLOAT_UNALIGNED, at, numbers.length);
        }
    }

    /**
     * Copies the input of a row that may have other columns.
     *
     * @param places indices of the input columns in the row
     */
    void read(InternalRow row, int[] places, MemorySegment to, long offset, RowName where) {
        float[] values = input(row, places, where);
        MemorySegment.copy(values, 0, to, ValueLayout.JAVA_FLOAT_UNALIGNED, offset, values.length);
    }

    /** Returns the numbers of the input columns of a row, in an array that the next call overwrites. */
    private float[] input(InternalRow row, int[] places, RowName where) {
        int at = 0;
        for (int i = 0; i < places.length; i++) {
            Column column = columns.inputs().get(i);
            if (column.type().isImage() && !row.isNullAt(places[i])) {
                try {
                    Images.read(row, places[i], column.type(), columns.shape(), input, at);
                } catch (Images.UnreadableException e) {
                    throw wrong(column, where, e.getMessage());
                }
            } else {
                copy(row, column, places[i], input, at, where);
            }
            at += column.width();
        }
        return input;
    }

    private static long classOf(InternalRow row, Column column, int place, RowName where) {
        double value;
        if (row.isNullAt(place)) {
            throw wrong(column, where, "is null; fill or drop rows with null");
        }
        value = number(column.type(), row, place);
        if (value < 0 || value != Math.rint(value) || value > Integer.MAX_VALUE) {
            throw wrong(column, where, "holds " + value + "; a class is a whole number from 0 on");
        }
        return (long) value;
    }

    private static void copy(InternalRow row, Column column, int place, float[] to, int at, RowName where) {
        if (row.isNullAt(place)) {
            throw wrong(column, where, "is null; fill or drop rows with null");
        }
        int width = width(column.type(), row, place);
        if (width != column.width()) {
            throw wrong(column, where, "has " + width + " numbers; every row needs " + column.width());
        }
        switch (column.type()) {
            case BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE -> to[at] = (float) number(column.type(), row, place);
            case BYTES -> {
                byte[] bytes = row.getBinary(place);
                for (int i = 0; i < width; i++) {
                    to[at + i] = bytes[i] & 0xFF;
                }
            }
            case VECTOR -> copyVector(row.getStruct(place, VECTOR_FIELDS), to, at, column, where);
            case ARRAY_OF_BYTE, ARRAY_OF_SHORT, ARRAY_OF_INT, ARRAY_OF_LONG, ARRAY_OF_FLOAT, ARRAY_OF_DOUBLE ->
                    copyArray(row.getArray(place), column, to, at, where);
            case IMAGE, IMAGE_FILE -> throw new IllegalArgumentException(column.type() + " is read as a whole");
        }
        for (int i = at; i < at + width; i++) {
            if (!Float.isFinite(to[i])) {
                throw wrong(column, where, "holds " + to[i] + (width == 1 ? "" : " at index " + (i - at))
                        + "; numbers must be finite f32");
            }
        }
    }

    private static double number(ColumnType type, InternalRow row, int place) {
        return switch (type) {
            case BOOLEAN -> row.getBoolean(place) ? 1 : 0;
            case BYTE -> row.getByte(place);
            case SHORT -> row.getShort(place);
            case INT -> row.getInt(place);
            case LONG -> row.getLong(place);
            case FLOAT -> row.getFloat(place);
            case DOUBLE -> row.getDouble(place);
            case BYTES, ARRAY_OF_BYTE, ARRAY_OF_SHORT, ARRAY_OF_INT, ARRAY_OF_LONG, ARRAY_OF_FLOAT, ARRAY_OF_DOUBLE,
                    VECTOR, IMAGE, IMAGE_FILE -> throw new IllegalArgumentException(type + " is not one number");
        };
    }

    private static void copyVector(InternalRow vector, float[] to, int at, Column column, RowName where) {
        double[] values = vector.getArray(VALUES).toDoubleArray();
        if (vector.getByte(0) == SPARSE) {
            Arrays.fill(to, at, at + column.width(), 0);
            int[] indices = vector.getArray(INDICES).toIntArray();
            for (int i = 0; i < indices.length; i++) {
                if (indices[i] < 0 || indices[i] >= column.width()) {
                    throw wrong(column, where, "has the index " + indices[i] + " in a vector of " + column.width());
                }
                to[at + indices[i]] = (float) values[i];
            }
        } else {
            for (int i = 0; i < values.length; i++) {
                to[at + i] = (float) values[i];
            }
        }
    }

    private static void copyArray(ArrayData array, Column column, float[] to, int at, RowName where) {
        int n = array.numElements();
        for (int i = firstThatMayBeNull(array); i < n; i++) {
            if (array.isNullAt(i)) {
                throw wrong(column, where, "is null at index " + i + "; fill or drop such rows");
            }
        }
        switch (column.type()) {
            case ARRAY_OF_FLOAT -> {
                if (array instanceof UnsafeArrayData unsafe) {
                    Platform.copyMemory(unsafe.getBaseObject(), unsafe.getBaseOffset()
                            + UnsafeArrayData.calculateHeaderPortionInBytes(n), to, Platform.FLOAT_ARRAY_OFFSET
                            + (long) Float.BYTES * at, (long) Float.BYTES * n);
                } else {
                    System.arraycopy(array.toFloatArray(), 0, to, at, n);
                }
            }
            case ARRAY_OF_DOUBLE -> {
                double[] values = array.toDoubleArray();
                for (int i = 0; i < n; i++) {
                    to[at + i] = (float) values[i];
                }
            }
            case ARRAY_OF_BYTE, ARRAY_OF_SHORT, ARRAY_OF_INT, ARRAY_OF_LONG -> {
                for (int i = 0; i < n; i++) {
                    to[at + i] = switch (column.type()) {
                        case ARRAY_OF_BYTE -> array.getByte(i);
                        case ARRAY_OF_SHORT -> array.getShort(i);
                        case ARRAY_OF_INT -> array.getInt(i);
                        default -> array.getLong(i);
                    };
                }
            }
            default -> throw new IllegalArgumentException(column.type() + " is no array");
        }
    }

    /** Returns an index before which no element is null. Looks at 64 elements at a time where their bits are known. */
    private static int firstThatMayBeNull(ArrayData array) {
        return array instanceof UnsafeArrayData unsafe && !BitSetMethods.anySet(unsafe.getBaseObject(),
                unsafe.getBaseOffset() + Long.BYTES, (array.numElements() + 63) / 64) ? array.numElements() : 0;
    }

    private static SparkDataException wrong(Column column, RowName where, String what) {
        return new SparkDataException("column \"" + column.name() + "\", " + where + ": " + what);
    }
}
