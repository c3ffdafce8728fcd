package dev.starling.distributed.collective.call;

import java.time.Duration;
import java.util.function.BooleanSupplier;

/** The threads that work for a group, as its tasks see them. */
public interface Driver {
    /** Runs an action while no other thread works for the group. */
    void locked(Runnable action);

    /** Wakes the background thread because there is work. */
    void wake();

    /** Returns what warns of waits that last. */
    Patience patience();

    /** Does the group's work until a condition holds or the time has passed; returns whether the condition holds. */
    boolean await(BooleanSupplier condition, Duration atMost);
}
