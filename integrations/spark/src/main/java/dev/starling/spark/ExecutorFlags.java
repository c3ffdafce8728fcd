package dev.starling.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;

/**
 * The JVM flags that Starling needs in executors, in addition to those that Spark sets itself. Call {@link #addTo}
 * before the session is created, or name {@link StarlingPlugin} in {@code spark.plugins}.
 */
public final class ExecutorFlags {
    /** The JDK flag that Agrona needs, which Starling's transports use. */
    public static final String AGRONA = "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED";
    private static final String OPTIONS = "spark.executor.extraJavaOptions";

    private ExecutorFlags() {
    }

    /** Adds the flags to a configuration; existing flags are kept. */
    public static SparkConf addTo(SparkConf conf) {
        return conf.set(OPTIONS, with(conf.get(OPTIONS, "")));
    }

    /**
     * Adds the flags to the builder of a session.
     *
     * @param other more flags for executors, or an empty text
     */
    public static SparkSession.Builder addTo(SparkSession.Builder builder, String other) {
        return builder.config(OPTIONS, with(other));
    }

    private static String with(String options) {
        return options.contains(AGRONA) ? options : (options + ' ' + AGRONA).strip();
    }

    /** Returns the flag that this JVM lacks and the remedy, or {@code null} if it lacks none. */
    static String missing() {
        return Object.class.getModule().isExported("jdk.internal.misc", ExecutorFlags.class.getModule()) ? null
                : "executors run without " + AGRONA + "; call ExecutorFlags.addTo before the session is created, or "
                + "set spark.plugins=" + StarlingPlugin.class.getName() + ", or add the flag to " + OPTIONS;
    }
}
