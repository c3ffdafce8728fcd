package dev.starling.distributed.collective.call;

/** Carries out one task at a time and never waits. Confined to the thread that works for the group. */
public interface StateMachine {
    /**
     * Advances the task; returns the amount of work done.
     *
     * @throws RuntimeException if another rank called a different collective
     */
    int doWork();

    /** Returns whether the last task is done. */
    boolean isDone();

    /** Returns a rank for which the task waits, or -1. */
    int awaited();
}
