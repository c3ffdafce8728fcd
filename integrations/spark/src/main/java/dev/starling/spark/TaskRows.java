package dev.starling.spark;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * The rows that a task reads. A row is valid until the next one is requested.
 *
 * @param training to train on
 * @param heldOut to measure on
 */
record TaskRows(Iterator<InternalRow> training, Iterator<InternalRow> heldOut) {
    /**
     * Returns the rows of each task, without a shuffle.
     *
     * @param heldOut with the same number of partitions, or {@code null}
     */
    static RDD<TaskRows> of(RDD<InternalRow> training, RDD<InternalRow> heldOut) {
        return (heldOut == null
                ? training.toJavaRDD().mapPartitions(rows -> one(rows, Collections.emptyIterator()))
                : training.toJavaRDD().zipPartitions(heldOut.toJavaRDD(), TaskRows::one)).rdd();
    }

    private static Iterator<TaskRows> one(Iterator<InternalRow> training, Iterator<InternalRow> heldOut) {
        return List.of(new TaskRows(training, heldOut)).iterator();
    }

    /** Returns the number of rows of each partition; reads all rows. */
    static int[] sizes(RDD<InternalRow> rows) {
        return rows.toJavaRDD().mapPartitions(partition -> {
            int count = 0;
            for (; partition.hasNext(); partition.next()) {
                count++;
            }
            return List.of(count).iterator();
        }).collect().stream().mapToInt(Integer::intValue).toArray();
    }
}
