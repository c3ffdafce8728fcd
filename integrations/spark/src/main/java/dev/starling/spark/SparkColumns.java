package dev.starling.spark;

import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import scala.jdk.javaapi.CollectionConverters;

/** The parts of Spark's classic API that give rows as Spark itself holds them. */
final class SparkColumns {
    private SparkColumns() {
    }

    /** Returns the column of exactly this name, dots and all. */
    static Column exactly(String name) {
        return functions.col('`' + name.replace("`", "``") + '`');
    }

    /** Returns the rows of a DataFrame. A row is valid until the next one is asked for. */
    static RDD<InternalRow> rows(Dataset<Row> frame) {
        return classic(frame).queryExecution().toRdd();
    }

    /** Returns what a DataFrame computes. */
    static LogicalPlan plan(Dataset<Row> frame) {
        return classic(frame).queryExecution().analyzed();
    }

    private static org.apache.spark.sql.classic.Dataset<Row> classic(Dataset<Row> frame) {
        if (frame instanceof org.apache.spark.sql.classic.Dataset<Row> classic) {
            return classic;
        }
        throw connected();
    }

    static SparkSession classic(org.apache.spark.sql.SparkSession session) {
        if (session instanceof SparkSession classic) {
            return classic;
        }
        throw connected();
    }

    private static SparkJobException connected() {
        return new SparkJobException("Starling needs a classic Spark session; Spark Connect has neither barrier stages "
                + "nor plans");
    }

    /**
     * Tells whether a barrier stage may compute these rows as they are: since the last shuffle, all of Spark's steps
     * must have one and the same number of partitions, which a union or a coalesce has not.
     */
    static boolean suitBarrier(RDD<?> rows, int tasks) {
        if (rows.getNumPartitions() != tasks) {
            return false;
        }
        for (Dependency<?> dependency : CollectionConverters.asJava(rows.dependencies())) {
            if (!(dependency instanceof ShuffleDependency<?, ?, ?>) && !suitBarrier(dependency.rdd(), tasks)) {
                return false;
            }
        }
        return true;
    }

    /** Tells whether rows have come through a shuffle since they were read or kept in a checkpoint. */
    static boolean isShuffled(RDD<?> rows) {
        return !rows.isCheckpointed() && CollectionConverters.asJava(rows.dependencies()).stream().anyMatch(d ->
                d instanceof ShuffleDependency<?, ?, ?> || isShuffled(d.rdd()));
    }

    static SparkContext context(Dataset<Row> frame) {
        return classic(frame.sparkSession()).sparkContext();
    }

    /**
     * Returns a copy of the first row.
     *
     * @throws SparkDataException if there is none
     */
    static InternalRow first(Dataset<Row> frame) {
        List<InternalRow> first = rows(frame).toJavaRDD().map(InternalRow::copy).take(1);
        if (first.isEmpty()) {
            throw new SparkDataException("the DataFrame has no rows; give it some to train on");
        }
        return first.getFirst();
    }
}
