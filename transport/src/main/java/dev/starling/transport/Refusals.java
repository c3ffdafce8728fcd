package dev.starling.transport;

import java.lang.System.Logger.Level;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.NanoClock;

/** Counts what a transport refuses, and logs some of it: a flood of strangers does not fill the log. */
final class Refusals {
    private static final System.Logger LOG = System.getLogger("dev.starling.transport");
    private static final long LOG_EVERY_NS = TimeUnit.SECONDS.toNanos(5);

    private final TransportCounters counters;
    private final String ownAddress;
    private final NanoClock clock;
    private boolean logged;
    private long lastLogNs;

    Refusals(TransportCounters counters, String ownAddress, NanoClock clock) {
        this.counters = counters;
        this.ownAddress = ownAddress;
        this.clock = clock;
    }

    /** Refuses bytes that are not a well-formed frame. */
    void malformed(String what) {
        counters.refusedFrames++;
        log("refused " + what);
    }

    /** Refuses a frame of a session that is not open. */
    void unknownSession() {
        counters.refusedSessions++;
        log("refused a frame of an unknown or closed session");
    }

    /** Refuses a process that has a different secret, or did not prove that it has the same. */
    void stranger(String address, String why) {
        counters.refusedStrangers++;
        log("refused " + address + ": " + why);
    }

    /** Counts a process with a different secret, without a log entry: the endpoint to it reports the reason. */
    boolean reportedStranger() {
        counters.refusedStrangers++;
        return false;
    }

    boolean proof(String address) {
        counters.refusedStrangers++;
        log("refused a proof in the name of " + address + ": its sender has a different secret");
        return false;
    }

    boolean checksum(String address) {
        counters.refusedChecksums++;
        log("refused a frame in the name of " + address + ": wrong checksum");
        return false;
    }

    boolean forged(String address) {
        counters.refusedChecksums++;
        log("refused a frame in the name of " + address + ": it was changed on its way, or forged");
        return false;
    }

    /** Reports a peer with other settings; the peer reports the same. */
    void settings(String why) {
        counters.refusedStrangers++;
        log("refused a connection: " + why);
    }

    /** Refuses a frame that is no longer expected: a replay, or a retry by a peer that had to wait long. */
    boolean late() {
        counters.refusedReplays++;
        return false;
    }

    boolean replay(String address, long sequence, long expected) {
        counters.refusedReplays++;
        log("refused frame " + sequence + " of " + address + ": expected frame " + expected);
        return false;
    }

    /** Refuses a put to a region that is closed or never was, or outside of one. */
    void write() {
        counters.refusedWrites++;
    }

    private void log(String what) {
        long now = clock.nanoTime();
        if (!logged || now - lastLogNs > LOG_EVERY_NS) {
            logged = true;
            lastLogNs = now;
            LOG.log(Level.WARNING, "{0}: {1} ({2} refused so far)", ownAddress, what, counters.refused());
        }
    }
}
