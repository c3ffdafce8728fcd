package dev.starling.distributed.ps;

import java.util.Arrays;

/**
 * How far each worker is with each unit. A place, {@link #slot}, for every pair. A worker numbers its pushes to a unit
 * from 0 in each session: what has a number below {@link #counts} is a repetition and changes nothing.
 */
final class Clocks {
    /** Was never there; the others wait for it as if it stood at 0. */
    static final byte AWAITED = 0;
    static final byte ACTIVE = 1;
    static final byte GONE = 2;

    final int workers;
    final byte[] states;
    final long[] sessions;
    /** Pushes that were applied in this session. */
    final long[] counts;
    /** Steps done, counted from where the worker came in. */
    final long[] clocks;
    /** Whether the worker waits for an answer; not kept: who waits asks again. */
    final boolean[] waiting;

    Clocks(int units, int workers) {
        this.workers = workers;
        int n = Math.multiplyExact(units, workers);
        states = new byte[n];
        sessions = new long[n];
        counts = new long[n];
        clocks = new long[n];
        waiting = new boolean[n];
    }

    int slot(int unit, int worker) {
        return unit * workers + worker;
    }

    boolean knows(int slot, long session) {
        return states[slot] == ACTIVE && sessions[slot] == session;
    }

    /** Lets a worker in where the slowest stands. */
    void join(int unit, int worker, long session) {
        int slot = slot(unit, worker);
        if (states[slot] != AWAITED) {
            states[slot] = GONE;
            letIn(unit, slot);
        }
        states[slot] = ACTIVE;
        sessions[slot] = session;
        counts[slot] = 0;
        waiting[slot] = false;
    }

    /** Lets a worker in again, if it was taken for gone, as one whose pushes are known up to then. */
    void takeBack(int unit, int worker, long session) {
        int slot = slot(unit, worker);
        if (states[slot] == GONE && sessions[slot] == session) {
            letIn(unit, slot);
            states[slot] = ACTIVE;
        }
    }

    private void letIn(int unit, int slot) {
        long slowest = slowest(unit);
        clocks[slot] = slowest == Long.MAX_VALUE ? furthest(unit) : slowest;
    }

    void leave(int slot) {
        states[slot] = GONE;
        waiting[slot] = false;
    }

    /** Returns where the slowest worker stands that is not gone; the greatest number if all are. */
    long slowest(int unit) {
        long slowest = Long.MAX_VALUE;
        for (int slot = slot(unit, 0); slot < slot(unit + 1, 0); slot++) {
            slowest = states[slot] == GONE ? slowest : Math.min(slowest, clocks[slot]);
        }
        return slowest;
    }

    private long furthest(int unit) {
        return Arrays.stream(clocks, slot(unit, 0), slot(unit + 1, 0)).max().orElse(0);
    }
}
