package dev.starling.study;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonValue;
import java.util.Arrays;
import java.util.stream.Collectors;

/** A way of training: a row of the study's table. */
enum Setup {
    /** The baseline. */
    SINGLE("single", "one process", 1, 0, true),
    RING_2("ring-2", "ring, 2 processes", 2, 0, true),
    RING_4("ring-4", "ring, 4 processes", 4, 0, true),
    PS_ASYNC("ps-async", "parameter server, asynchronous", 3, 1, false),
    PS_STALE("ps-stale", "parameter server, at most 4 steps apart", 3, 1, false),
    GOSSIP_4("gossip-4", "gossip, 4 processes", 4, 0, false),
    SPARK_2("spark-2", "Spark barrier stage, ring, 2 executors", 2, 0, true),
    GPU("gpu", "one process, GPU", 1, 0, true);

    /** Number of steps that a worker of {@link #PS_STALE} may be ahead of the slowest. */
    static final int STALENESS = 4;

    private final String label;
    private final String title;
    private final int workers;
    private final int servers;
    private final boolean synchronous;

    Setup(String label, String title, int workers, int servers, boolean synchronous) {
        this.label = label;
        this.title = title;
        this.workers = workers;
        this.servers = servers;
        this.synchronous = synchronous;
    }

    /** Returns its name on the command line and in JSON. */
    @JsonValue
    String label() {
        return label;
    }

    /** Returns its name in tables. */
    String title() {
        return title;
    }

    /** Returns the number of processes that train. */
    int workers() {
        return workers;
    }

    /** Returns the number of servers. */
    int servers() {
        return servers;
    }

    /** Returns whether all workers take the same step, each with a part of the batch. */
    boolean isSynchronous() {
        return synchronous;
    }

    /**
     * Returns the setup with a label.
     *
     * @throws IllegalArgumentException if there is none
     */
    @JsonCreator
    static Setup of(String label) {
        return Arrays.stream(values()).filter(s -> s.label.equals(label)).findFirst().orElseThrow(() ->
                new IllegalArgumentException("there is no row \"" + label + "\"; choose from " + labels()));
    }

    /** Returns all labels, for messages. */
    static String labels() {
        return Arrays.stream(values()).map(Setup::label).collect(Collectors.joining(", "));
    }
}
