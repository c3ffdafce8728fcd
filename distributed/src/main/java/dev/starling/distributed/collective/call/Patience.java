package dev.starling.distributed.collective.call;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Locale;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * Warns of waits that last: after a third of the timeout or three liveness timeouts, whichever is less, and then at
 * intervals that double. Safe for use by several threads.
 */
public final class Patience {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final int PART_OF_TIMEOUT = 3;
    private static final int LIVENESS_TIMEOUTS = 3;

    private final Duration first;
    private volatile Supplier<String> place;

    /**
     * Creates the patience of a process.
     *
     * @param place where the process is, as the subject of a sentence: {@code rank 1 of 3, at step 7,}
     */
    public Patience(Duration timeout, Duration livenessTimeout, Supplier<String> place) {
        Duration part = timeout.dividedBy(PART_OF_TIMEOUT);
        Duration silences = livenessTimeout.multipliedBy(LIVENESS_TIMEOUTS);
        first = part.compareTo(silences) < 0 ? part : silences;
        this.place = place;
    }

    /** Returns the duration of a wait after which the first warning is due. */
    public Duration first() {
        return first;
    }

    /** Sets where the process is. */
    public void place(Supplier<String> newPlace) {
        place = newPlace;
    }

    /**
     * Waits, and warns while that lasts.
     *
     * @param wait waits for at most a duration; returns whether the end of the wait has come
     * @param awaited for what and for which process, as it appears after "for"
     * @return whether the end of the wait has come in time
     */
    public boolean await(Predicate<Duration> wait, Duration atMost, Supplier<String> awaited) {
        return atMost.compareTo(first) <= 0 ? wait.test(atMost)
                : wait.test(first) || awaitLonger(wait, first, atMost, awaited);
    }

    /** As {@link #await}, after the process has waited for the duration of {@link #first}. */
    boolean awaitLonger(Predicate<Duration> wait, Duration before, Duration atMost, Supplier<String> awaited) {
        Duration waited = before;
        while (waited.compareTo(atMost) < 0) {
            warn(waited, atMost, awaited.get());
            Duration next = waited.multipliedBy(2);
            next = next.compareTo(atMost) < 0 ? next : atMost;
            if (wait.test(next.minus(waited))) {
                return true;
            }
            waited = next;
        }
        return false;
    }

    /** Warns of a wait. */
    public void warn(Duration waited, Duration atMost, String awaited) {
        LOG.log(Level.WARNING, "{0} has waited {1} s for {2}; it gives up after {3} s", place.get(), seconds(waited),
                awaited, seconds(atMost));
    }

    private static String seconds(Duration time) {
        return String.format(Locale.ROOT, "%.1f", time.toMillis() / 1e3);
    }
}
