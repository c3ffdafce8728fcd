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

/** Access to the rows and plans of DataFrames through Spark's classic API. */
final class SparkColumns {
    private SparkColumns() {
    }

    /** Returns the column of exactly this name, which may contain dots. */
    static Column exactly(String name) {
        return functions.col('`' + name.replace("`", "``") + '`');
    }

    /** Returns the rows of a DataFrame. A row is valid until the next one is requested. */
    static RDD<InternalRow> rows(Dataset<Row> frame) {
        return classic(frame).queryExecution().toRdd();
    }

    /** Returns the analysed plan of a DataFrame. */
    static LogicalPlan plan(Dataset<Row> frame) {
        return classic(frame).queryExecution().analyzed();
    }

    private static org.apache.spark.sql.classic.Dataset<Row> classic(Dataset<Row> frame) {
        if (frame instanceof org.apache.spark.sql.classic.Dataset<Row> classic) {
            return classic;
        }
        throw notClassic();
    }

    static SparkSession classic(org.apache.spark.sql.SparkSession session) {
        if (session instanceof SparkSession classic) {
            return classic;
        }
        throw notClassic();
    }

    private static SparkJobException notClassic() {
        return new SparkJobException("Starling needs a classic Spark session; Spark Connect has neither barrier stages "
                + "nor plans");
    }

    /**
     * Returns whether a barrier stage may compute these rows without a shuffle: Spark requires that all RDDs since the
     * last shuffle have the same number of partitions, which is not so after a union or a coalesce.
     */
    static boolean suitsBarrier(RDD<?> rows, int tasks) {
        if (rows.getNumPartitions() != tasks) {
            return false;
        }
        for (Dependency<?> dependency : CollectionConverters.asJava(rows.dependencies())) {
            if (!(dependency instanceof ShuffleDependency<?, ?, ?>) && !suitsBarrier(dependency.rdd(), tasks)) {
                return false;
            }
        }
        return true;
    }

    /** Returns whether rows were shuffled since they were read or saved in a checkpoint. */
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
