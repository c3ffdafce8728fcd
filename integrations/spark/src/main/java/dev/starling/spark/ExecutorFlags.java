package dev.starling.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;

/**
 * The JVM flags that Starling needs in executors, in addition to those that Spark sets itself. Call {@link #addTo}
 * before the session is made, or name {@link StarlingPlugin} in {@code spark.plugins}.
 */
public final class ExecutorFlags {
    /** What Agrona, on which Starling's transports stand, needs of the JDK. */
    public static final String AGRONA = "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED";
    private static final String OPTIONS = "spark.executor.extraJavaOptions";

    private ExecutorFlags() {
    }

    /** Adds the flags to a configuration; others that are there stay. */
    public static SparkConf addTo(SparkConf conf) {
        return conf.set(OPTIONS, with(conf.get(OPTIONS, "")));
    }

    /**
     * Adds the flags to a session that has not been made yet.
     *
     * @param other more flags for executors, or an empty text
     */
    public static SparkSession.Builder addTo(SparkSession.Builder builder, String other) {
        return builder.config(OPTIONS, with(other));
    }

    private static String with(String options) {
        return options.contains(AGRONA) ? options : (options + ' ' + AGRONA).strip();
    }

    /** Returns what this JVM lacks and what to do about it, or {@code null} if it lacks nothing. */
    static String missing() {
        return Object.class.getModule().isExported("jdk.internal.misc", ExecutorFlags.class.getModule()) ? null
                : "executors run without " + AGRONA + "; call ExecutorFlags.addTo before the session is made, or set "
                + "spark.plugins=" + StarlingPlugin.class.getName() + ", or add the flag to " + OPTIONS;
    }
}
