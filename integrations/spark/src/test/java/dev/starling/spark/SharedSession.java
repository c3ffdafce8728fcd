package dev.starling.spark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/** The one session of all tests: two executor processes with a core each. */
final class SharedSession {
    private static SparkSession session;

    private SharedSession() {
    }

    static synchronized SparkSession get() {
        if (session == null) {
            session = EmbeddedCluster.session(2, 1, 1024).appName("tests")
                    .config("spark.sql.shuffle.partitions", 2)
                    .config("spark.sql.warehouse.dir", "target/warehouse").getOrCreate();
        }
        return session;
    }

    /**
     * Points of a square, of class 1 above a diagonal: {@code x}, {@code y}, both as the array {@code point}, and
     * {@code label}. The first partition has {@code first} rows, the second the others.
     */
    static Dataset<Row> points(int first, int rows) {
        return get().range(0, rows, 1, 2).repartitionById(2, functions.expr("case when id < " + first
                + " then 0 else 1 end")).selectExpr("id", "cast((id * 37) % 101 / 100.0 as float) as x",
                "cast((id * 53) % 97 / 96.0 as float) as y")
                .selectExpr("id", "x", "y", "array(x, y) as point", "cast(x + y > 1 as int) as label",
                        "cast(2 * x - y as double) as height");
    }
}
