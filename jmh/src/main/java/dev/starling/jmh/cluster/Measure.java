package dev.starling.jmh.cluster;

import java.util.Locale;

/** Operations that members of a group run together. */
enum Measure {
    /** An all-reduce of floats, in place. */
    ALL_REDUCE("GB/s") {
        /**
         * Bus bandwidth as nccl-tests define it: the least that each member sends, comparable between numbers of
         * members.
         */
        @Override
        double value(int world, long bytes, double nanos) {
            return 2.0 * (world - 1) / world * bytes / nanos;
        }
    },
    /** A message from member 0 to member 1, and back. */
    ROUND_TRIP("µs"),
    /** A one-sided write from one of two members to the other, until the other reads it. */
    PUT("µs"),
    /** Training steps of a convolutional network; the number of bytes is that of images on each member. */
    TRAIN("img/s"),
    /** A training step with timed waits in place of computation, without communication. */
    STEP_ALONE("ms"),
    /** The same, with all gradients sent at the end of the step. */
    STEP_LATE("ms"),
    /** The same, with each gradient sent as soon as it is final. */
    STEP_OVERLAPPED("ms");

    private final String unit;

    Measure(String unit) {
        this.unit = unit;
    }

    String unit() {
        return unit;
    }

    /** Returns the figure for a duration. */
    double value(int world, long bytes, double nanos) {
        return nanos / 1e3;
    }

    /** Returns the name in orders and tables. */
    String label() {
        return name().toLowerCase(Locale.ROOT).replace("_", "");
    }

    static Measure of(String label) {
        for (Measure measure : values()) {
            if (measure.label().equals(label)) {
                return measure;
            }
        }
        throw new IllegalArgumentException("unknown measure: " + label);
    }
}
