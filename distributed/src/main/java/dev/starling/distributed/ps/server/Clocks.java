package dev.starling.distributed.ps.server;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The progress of each worker in each unit, one {@link #slot} for each pair. A worker numbers its pushes to a unit from
 * 0 in each session. A push whose number is below {@link #counts} is a repetition and has no effect.
 */
final class Clocks {
    /** The worker has not joined yet; others wait for it as if its clock were 0. */
    static final byte AWAITED = 0;
    static final byte ACTIVE = 1;
    static final byte LEFT = 2;
    /** Bytes in which {@link #write} writes a clock: worker, state, session, count, clock. */
    static final int BYTES = 32;

    final int workers;
    final byte[] states;
    final long[] sessions;
    /** Number of pushes applied in the session. */
    final long[] counts;
    /** Number of steps done; a worker that joins starts at the clock of the slowest. */
    final long[] clocks;
    /** Whether the worker waits for a reply. Not part of snapshots, because workers repeat open requests. */
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

    /** Writes the clock of a worker. */
    void write(int unit, int worker, ByteBuffer into) {
        int slot = slot(unit, worker);
        into.putInt(worker).putInt(states[slot]).putLong(sessions[slot]).putLong(counts[slot]).putLong(clocks[slot]);
    }

    /**
     * Replaces the clock of a worker by one that {@link #write} has written. The other units from {@code begin} to
     * before {@code end} have taken the same step, each in a session of its own: their clocks advance by one.
     */
    void read(int unit, int begin, int end, ByteBuffer from) {
        int worker = from.getInt();
        for (int u = begin; u < end; u++) {
            counts[slot(u, worker)]++;
            clocks[slot(u, worker)]++;
        }
        int slot = slot(unit, worker);
        states[slot] = (byte) from.getInt();
        sessions[slot] = from.getLong();
        counts[slot] = from.getLong();
        clocks[slot] = from.getLong();
    }

    /** Admits a worker in a new session, with the clock of the slowest worker. */
    void join(int unit, int worker, long session) {
        int slot = slot(unit, worker);
        if (states[slot] != AWAITED) {
            states[slot] = LEFT;
            catchUp(unit, slot);
        }
        states[slot] = ACTIVE;
        sessions[slot] = session;
        counts[slot] = 0;
        waiting[slot] = false;
    }

    /** Readmits a worker that was considered lost, in the same session: counts remain, and no clock goes back. */
    void readmit(int unit, int worker, long session) {
        int slot = slot(unit, worker);
        if (states[slot] == LEFT && sessions[slot] == session) {
            long own = clocks[slot];
            catchUp(unit, slot);
            clocks[slot] = Math.max(own, clocks[slot]);
            states[slot] = ACTIVE;
        }
    }

    private void catchUp(int unit, int slot) {
        long slowest = slowest(unit);
        clocks[slot] = slowest == Long.MAX_VALUE ? furthest(unit) : slowest;
    }

    void leave(int slot) {
        states[slot] = LEFT;
        waiting[slot] = false;
    }

    /** Returns the clock of the slowest worker that has not left; {@link Long#MAX_VALUE} if all have. */
    long slowest(int unit) {
        long slowest = Long.MAX_VALUE;
        for (int slot = slot(unit, 0); slot < slot(unit + 1, 0); slot++) {
            slowest = states[slot] == LEFT ? slowest : Math.min(slowest, clocks[slot]);
        }
        return slowest;
    }

    private long furthest(int unit) {
        return Arrays.stream(clocks, slot(unit, 0), slot(unit + 1, 0)).max().orElse(0);
    }
}
