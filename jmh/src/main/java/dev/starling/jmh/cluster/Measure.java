package dev.starling.jmh.cluster;

import java.util.Locale;

/** What members of a group do together. */
enum Measure {
    /** Sums floats of all members in place; all get the sum. */
    ALL_REDUCE("GB/s") {
        /** As nccl-tests define it: what each member sends at least, whatever the number of members. */
        @Override
        double value(int world, long bytes, double nanos) {
            return 2.0 * (world - 1) / world * bytes / nanos;
        }
    },
    /** A message from member 0 to member 1, and back. */
    ROUND_TRIP("µs"),
    /** A one-sided write from one of two members to the other, until the other sees it. */
    PUT("µs"),
    /** Training steps of a convolutional network; the number of bytes is that of images on each member. */
    TRAIN("img/s"),
    /** A training step with timed waits in place of computing, and nobody to talk to. */
    STEP_ALONE("ms"),
    /** The same, with all gradients sent at its end. */
    STEP_LATE("ms"),
    /** The same, with gradients sent as they come. */
    STEP_OVERLAPPED("ms");

    private final String unit;

    Measure(String unit) {
        this.unit = unit;
    }

    String unit() {
        return unit;
    }

    /** Returns whether more is better. */
    boolean isRate() {
        return this == ALL_REDUCE;
    }

    /** Returns the figure for one that took so long. */
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
        throw new IllegalArgumentException("no such measure: " + label);
    }
}
