package dev.starling.spark;

import dev.starling.nn.checkpoint.Sha256;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import java.io.Serializable;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.Utils;

/** All rows of a small DataFrame in one array, so that they can be broadcast. */
public final class PackedRows implements Serializable {
    private static final long serialVersionUID = 1L;

    private final byte[] bytes;
    /** Serialised by Java: Spark may be configured to serialise broadcast values by Kryo, which cannot read records. */
    private final byte[] columns;

    private PackedRows(byte[] bytes, Columns columns) {
        this.bytes = bytes;
        this.columns = Utils.serialize(columns);
    }

    private Columns columns() {
        return Utils.<Columns>deserialize(columns, Columns.class.getClassLoader());
    }

    /**
     * Collects rows, in the order of their partitions.
     *
     * @param shape of one example's input; {@code null} for one dimension
     * @param isClass whether the target is a class
     * @throws SparkDataException if they cannot be trained on, or take more than 2 GiB
     * @throws SparkJobException if a job failed or was cancelled, or if the thread was interrupted
     */
    public static PackedRows of(Dataset<Row> frame, List<String> inputs, long[] shape, String target,
            boolean isClass) {
        return EndedByInterrupt.call(SparkColumns.context(frame), () -> packed(frame, inputs, shape, target, isClass));
    }

    private static PackedRows packed(Dataset<Row> frame, List<String> inputs, long[] shape, String target,
            boolean isClass) {
        Columns.Selection selection = new Columns.Selection(inputs, shape, target, isClass);
        Dataset<Row> selected = selection.select(frame);
        Columns columns = selection.resolve(selected.schema(), SparkColumns.first(selected));
        List<byte[]> parts = collect(SparkColumns.rows(selected).toJavaRDD().mapPartitions(pack(columns)));
        long length = parts.stream().mapToLong(part -> part.length).sum();
        if (length > Integer.MAX_VALUE - 8) {
            throw new SparkDataException("the rows take " + length + " bytes; a search takes up to 2 GiB: sample them");
        }
        byte[] all = new byte[(int) length];
        int at = 0;
        for (byte[] part : parts) {
            System.arraycopy(part, 0, all, at, part.length);
            at += part.length;
        }
        return new PackedRows(all, columns);
    }

    private static List<byte[]> collect(JavaRDD<byte[]> rows) {
        try {
            return rows.collect();
        } catch (Exception e) {
            // Spark throws checked exceptions without declaring them.
            String problem = DriverRun.problem(String.valueOf(e.getMessage()));
            if (problem != null) {
                throw new SparkDataException(problem);
            }
            throw e;
        }
    }

    private static FlatMapFunction<Iterator<InternalRow>, byte[]> pack(Columns columns) {
        return rows -> {
            List<byte[]> packed = new ArrayList<>();
            RowReader reader = new RowReader(columns);
            RowName name = new RowName(TaskContext.get().partitionId());
            while (rows.hasNext()) {
                byte[] row = new byte[(int) RowReader.bytes(columns)];
                reader.read(rows.next(), MemorySegment.ofArray(row), 0, name);
                packed.add(row);
                name.row++;
            }
            return packed.iterator();
        };
    }

    /** Returns the number of examples. */
    public int size() {
        return (int) (bytes.length / RowReader.bytes(columns()));
    }

    /** Returns the SHA-256 of all examples and their fields. */
    public String digest() {
        return Sha256.of(columns().fields().toString().getBytes(StandardCharsets.UTF_8), bytes);
    }

    /** Returns the examples {@code from} (inclusive) to {@code to} (exclusive) as a data set; not a copy. */
    public dev.starling.nn.data.Dataset slice(int from, int to) {
        Columns own = columns();
        List<Field> fields = own.fields();
        long rowBytes = RowReader.bytes(own);
        MemorySegment packed = MemorySegment.ofArray(bytes);
        return new dev.starling.nn.data.Dataset() {
            @Override
            public int size() {
                return to - from;
            }

            @Override
            public List<Field> fields() {
                return fields;
            }

            @Override
            public void write(int index, Example target) {
                long at = (from + index) * rowBytes;
                for (int i = 0; i < fields.size(); i++) {
                    long length = fields.get(i).bytes();
                    MemorySegment.copy(packed, at, target.segment(i), target.offset(i), length);
                    at += length;
                }
            }
        };
    }
}
