package dev.starling.spark;

import dev.starling.nn.data.Field;
import java.io.Serializable;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;

/** All rows of a small DataFrame in one array, so that they can be broadcast. */
public final class PackedRows implements Serializable {
    private static final long serialVersionUID = 1L;

    private final byte[] bytes;
    private final Columns columns;

    private PackedRows(byte[] bytes, Columns columns) {
        this.bytes = bytes;
        this.columns = columns;
    }

    /**
     * Collects rows, in the order of their partitions.
     *
     * @param isClass whether the target is a class
     * @throws SparkDataException if they cannot be trained on, or take more than 2 GiB
     */
    public static PackedRows of(Dataset<Row> frame, List<String> inputs, String target, boolean isClass) {
        Columns.Wish wish = new Columns.Wish(inputs, null, target, isClass);
        wish.check(frame.schema());
        Dataset<Row> selected = frame.select(java.util.Arrays.stream(wish.names()).map(SparkColumns::exactly)
                .toArray(org.apache.spark.sql.Column[]::new));
        Columns columns = wish.resolve(selected.schema(), SparkColumns.first(selected));
        List<byte[]> parts = SparkColumns.rows(selected).toJavaRDD().mapPartitions(pack(columns)).collect();
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

    /** Returns all examples, one after the other; not a copy. */
    public byte[] bytes() {
        return bytes;
    }

    /** Returns what an example consists of. */
    public List<Field> fields() {
        return columns.fields();
    }

    /** Returns the size of an example in bytes. */
    public long rowBytes() {
        return RowReader.bytes(columns);
    }

    /** Returns the number of examples. */
    public int size() {
        return (int) (bytes.length / rowBytes());
    }
}
