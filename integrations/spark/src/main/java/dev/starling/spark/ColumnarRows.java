package dev.starling.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * The rows of batches of columns, such as Parquet's vectorised reader makes. They equal those of Spark's {@code
 * ColumnarToRowExec}, but an array of numbers is copied as a whole; Spark copies each element by itself, which takes as
 * long as decoding it. A row is valid until the next one is requested. Confined to a task's thread.
 */
final class ColumnarRows implements Iterator<InternalRow> {
    private final Iterator<ColumnarBatch> batches;
    private final List<NumberArrays> arrays = new ArrayList<>();
    /** The arrays of the current row, {@code null} where the projection has to copy the elements. */
    private final GenericInternalRow copied;
    private final JoinedRow joined = new JoinedRow();
    private final UnsafeProjection projection;
    private ColumnarBatch batch;
    private int next;

    ColumnarRows(Iterator<ColumnarBatch> batches, List<Attribute> columns) {
        this.batches = batches;
        List<Attribute> present = new ArrayList<>(columns);
        List<Expression> fields = new ArrayList<>(columns);
        for (int i = 0; i < columns.size(); i++) {
            Attribute column = columns.get(i);
            if (column.dataType() instanceof ArrayType && ColumnType.of(column.dataType()) != null) {
                Attribute copy = new AttributeReference(column.name(), column.dataType(), true, Metadata.empty(),
                        NamedExpression.newExprId(), Plans.seq(List.of()));
                present.add(copy);
                fields.set(i, new Coalesce(Plans.seq(List.of(copy, column))));
                arrays.add(new NumberArrays(i));
            }
        }
        copied = new GenericInternalRow(new Object[arrays.size()]);
        projection = UnsafeProjection.create(Plans.<Expression>seq(fields), Plans.<Attribute>seq(present));
    }

    /** Returns the rows of batches with these columns. */
    static RDD<InternalRow> of(RDD<ColumnarBatch> batches, Seq<Attribute> columns) {
        return batches.mapPartitions(new OfPartition(columns), true, ClassTag$.MODULE$.<InternalRow>apply(
                InternalRow.class));
    }

    @SuppressWarnings("serial") // the sequences in Spark's plans are serialisable, but their static type is not
    private static final class OfPartition extends AbstractFunction1<scala.collection.Iterator<ColumnarBatch>,
            scala.collection.Iterator<InternalRow>> implements Serializable {
        private static final long serialVersionUID = 1L;
        private final Seq<Attribute> columns;

        OfPartition(Seq<Attribute> columns) {
            this.columns = columns;
        }

        @Override
        public scala.collection.Iterator<InternalRow> apply(scala.collection.Iterator<ColumnarBatch> batches) {
            return CollectionConverters.asScala(new ColumnarRows(CollectionConverters.asJava(batches),
                    Plans.list(columns)));
        }
    }

    @Override
    public boolean hasNext() {
        while (batch == null || next == batch.numRows()) {
            if (batch != null) {
                batch.closeIfFreeable();
                batch = null;
            }
            if (!batches.hasNext()) {
                return false;
            }
            batch = batches.next();
            next = 0;
            arrays.forEach(column -> column.open(batch));
        }
        return true;
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the partition has no further row");
        }
        for (int i = 0; i < arrays.size(); i++) {
            copied.update(i, arrays.get(i).copy(next));
        }
        return projection.apply(joined.apply(batch.getRow(next++), copied));
    }

    /** A column of arrays of numbers. */
    private static final class NumberArrays {
        private static final long UNKNOWN = 0x8000_0000_0000_0001L;
        private final int column;
        /** {@code null} if the column's vector is of a kind that does not give access to whole arrays. */
        private WritableColumnVector vector;
        /** Bits of the numbers in the batch's dictionary, by id; {@link #UNKNOWN} if not read yet. */
        private long[] dictionary = {};

        NumberArrays(int column) {
            this.column = column;
        }

        void open(ColumnarBatch batch) {
            vector = batch.column(column) instanceof WritableColumnVector writable ? writable : null;
            Arrays.fill(dictionary, UNKNOWN);
        }

        /** Returns a copy of a row's array; {@code null} if it is null or must be copied element by element. */
        UnsafeArrayData copy(int row) {
            if (vector == null || vector.isNullAt(row)) {
                return null;
            }
            WritableColumnVector elements = vector.arrayData();
            int offset = vector.getArrayOffset(row);
            int count = vector.getArrayLength(row);
            for (int i = elements.hasNull() ? 0 : count; i < count; i++) {
                if (elements.isNullAt(offset + i)) {
                    return null;
                }
            }
            if (elements.hasDictionary()) {
                return switch (elements.dataType()) {
                    case IntegerType _, FloatType _ -> decoded(elements, offset, count, Integer.BYTES);
                    case LongType _, DoubleType _ -> decoded(elements, offset, count, Long.BYTES);
                    default -> null;
                };
            }
            return switch (elements.dataType()) {
                case ByteType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getBytes(offset, count));
                case ShortType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getShorts(offset, count));
                case IntegerType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getInts(offset, count));
                case LongType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getLongs(offset, count));
                case FloatType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getFloats(offset, count));
                case DoubleType _ -> UnsafeArrayData.fromPrimitiveArray(elements.getDoubles(offset, count));
                default -> null;
            };
        }

        /** Decodes here, because {@code getFloats} and its like ignore a dictionary. */
        private UnsafeArrayData decoded(WritableColumnVector elements, int offset, int count, int bytes) {
            int[] ids = elements.getDictionaryIds().getInts(offset, count);
            UnsafeArrayData to = UnsafeArrayData.createFreshArray(count, bytes);
            Object base = to.getBaseObject();
            long first = to.getBaseOffset() + UnsafeArrayData.calculateHeaderPortionInBytes(count);
            long[] known = dictionary;
            for (int i = 0; i < count; i++) {
                int id = ids[i];
                long bits = id < known.length ? known[id] : UNKNOWN;
                if (bits == UNKNOWN) {
                    bits = bits(elements, offset + i);
                    known = remember(id, bits);
                }
                if (bytes == Integer.BYTES) {
                    Platform.putInt(base, first + (long) Integer.BYTES * i, (int) bits);
                } else {
                    Platform.putLong(base, first + (long) Long.BYTES * i, bits);
                }
            }
            return to;
        }

        private static long bits(WritableColumnVector elements, int i) {
            return switch (elements.dataType()) {
                case IntegerType _ -> elements.getInt(i);
                case FloatType _ -> Float.floatToRawIntBits(elements.getFloat(i));
                case DoubleType _ -> Double.doubleToRawLongBits(elements.getDouble(i));
                default -> elements.getLong(i);
            };
        }

        private long[] remember(int id, long bits) {
            int size = dictionary.length;
            if (id >= size) {
                dictionary = Arrays.copyOf(dictionary, Math.max(id + 1, 2 * size));
                Arrays.fill(dictionary, size, dictionary.length, UNKNOWN);
            }
            dictionary[id] = bits;
            return dictionary;
        }
    }
}
