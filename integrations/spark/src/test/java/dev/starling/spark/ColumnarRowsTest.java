package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.vectorized.Dictionary;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Rows of columnar batches are those that Spark's own projection copies element by element. */
class ColumnarRowsTest {
    private static final int ROWS = 40;
    private static final List<DataType> TYPES = List.of(DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType,
            DataTypes.LongType, DataTypes.FloatType, DataTypes.DoubleType);

    /** A dictionary of numbers that differ between batches. */
    private record Numbers(int batch) implements Dictionary {
        @Override
        public int decodeToInt(int id) {
            return id * 7 - 20 + batch;
        }

        @Override
        public long decodeToLong(int id) {
            return id == 3 ? 0x8000_0000_0000_0001L : id * 7_000_000_000L + batch;
        }

        @Override
        public float decodeToFloat(int id) {
            return id == 3 ? Float.NaN : id * 0.1f + batch;
        }

        @Override
        public double decodeToDouble(int id) {
            return id == 3 ? -0.0 : id * 0.1 + batch;
        }

        @Override
        public byte[] decodeToBinary(int id) {
            throw new UnsupportedOperationException();
        }
    }

    private static WritableColumnVector vector(boolean offHeap, DataType type) {
        return offHeap ? new OffHeapColumnVector(ROWS, type) : new OnHeapColumnVector(ROWS, type);
    }

    private static void putNumber(WritableColumnVector elements, DataType type, int i, int value) {
        switch (TYPES.indexOf(type)) {
            case 0 -> elements.putByte(i, (byte) value);
            case 1 -> elements.putShort(i, (short) value);
            case 2 -> elements.putInt(i, value);
            case 3 -> elements.putLong(i, value * 5_000_000_000L);
            case 4 -> elements.putFloat(i, value * 0.37f);
            default -> elements.putDouble(i, value * 0.37);
        }
    }

    /** Fills a column of arrays: some null, some empty, some with null elements if {@code holes}. */
    private static void fill(WritableColumnVector column, DataType type, boolean hasDictionary, boolean holes,
            int batch, Random random) {
        WritableColumnVector elements = column.arrayData();
        elements.reserve(ROWS * 70);
        WritableColumnVector ids = hasDictionary ? elements.reserveDictionaryIds(ROWS * 70) : null;
        int offset = 0;
        for (int row = 0; row < ROWS; row++) {
            int length = random.nextInt(4) == 0 ? 0 : random.nextInt(70);
            if (random.nextInt(6) == 0) {
                column.putNull(row);
                continue;
            }
            column.putArray(row, offset, length);
            for (int i = offset; i < offset + length; i++) {
                if (holes && random.nextInt(40) == 0) {
                    elements.putNull(i);
                } else if (hasDictionary) {
                    ids.putInt(i, random.nextInt(batch == 1 ? 300 : 9));
                } else {
                    putNumber(elements, type, i, random.nextInt());
                }
            }
            offset += length;
        }
        elements.setDictionary(hasDictionary ? new Numbers(batch) : null);
    }

    @ParameterizedTest
    @CsvSource({"false, false, false", "false, true, false", "true, false, true", "true, true, true",
            "false, true, true"})
    void equalTheRowsOfSpark(boolean offHeap, boolean hasDictionary, boolean holes) {
        Random random = new Random(7);
        List<Attribute> columns = new ArrayList<>();
        List<ColumnVector> vectors = new ArrayList<>();
        for (DataType type : TYPES) {
            DataType array = DataTypes.createArrayType(type);
            columns.add(new AttributeReference(type.simpleString(), array, true, Metadata.empty(),
                    NamedExpression.newExprId(), Plans.seq(List.of())));
            vectors.add(vector(offHeap, array));
        }
        ColumnarBatch batch = new ColumnarBatch(vectors.toArray(ColumnVector[]::new));
        UnsafeProjection oracle = UnsafeProjection.create(Plans.seq(columns), Plans.seq(columns));
        int[] batches = {0};
        Iterator<ColumnarBatch> source = new Iterator<>() {
            @Override
            public boolean hasNext() {
                return batches[0] < 4;
            }

            @Override
            public ColumnarBatch next() {
                for (int i = 0; i < TYPES.size(); i++) {
                    WritableColumnVector column = (WritableColumnVector) vectors.get(i);
                    column.reset();
                    fill(column, TYPES.get(i), hasDictionary, holes, batches[0], random);
                }
                batch.setNumRows(batches[0] == 2 ? 0 : ROWS);
                batches[0]++;
                return batch;
            }
        };
        ColumnarRows rows = new ColumnarRows(source, columns);
        int count = 0;
        while (rows.hasNext()) {
            InternalRow row = rows.next();
            assertThat(row).as("row %d", count).isEqualTo(oracle.apply(batch.getRow(count % ROWS)));
            count++;
        }
        assertThat(count).isEqualTo(3 * ROWS);
        batch.close();
    }
}
