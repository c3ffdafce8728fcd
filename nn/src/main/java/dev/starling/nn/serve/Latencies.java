package dev.starling.nn.serve;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLongArray;

/** Counts durations in classes of which eight span a power of two. Thread-safe. */
final class Latencies {
    private static final int LOG_PARTS = 3;
    private static final int PARTS = 1 << LOG_PARTS;

    private final AtomicLongArray counts = new AtomicLongArray(Long.SIZE << LOG_PARTS);

    void add(long nanos) {
        counts.incrementAndGet(index(Math.max(nanos, PARTS)));
    }

    /** Returns an upper bound of the given share of all durations, or zero if there are none. */
    Duration quantile(double share) {
        long total = 0;
        for (int i = 0; i < counts.length(); i++) {
            total += counts.get(i);
        }
        long rank = (long) Math.ceil(total * share);
        long seen = 0;
        for (int i = 0; i < counts.length() && rank > 0; i++) {
            seen += counts.get(i);
            if (seen >= rank) {
                return Duration.ofNanos(upper(i));
            }
        }
        return Duration.ZERO;
    }

    private static int index(long nanos) {
        int log = Long.SIZE - 1 - Long.numberOfLeadingZeros(nanos);
        return log << LOG_PARTS | (int) (nanos >>> log - LOG_PARTS) & PARTS - 1;
    }

    private static long upper(int index) {
        return (long) (PARTS + (index & PARTS - 1) + 1) << (index >> LOG_PARTS) - LOG_PARTS;
    }
}
