package dev.starling.transport.ucx;

import java.util.HashMap;
import java.util.Map;
import org.openucx.jucx.ucp.UcpEndpoint;

/** The receiving end of one link of a peer. */
final class Inflow {
    private static final int MAX_UNREPORTED = 256;
    private static final long REPORT_DELAY_NS = 5_000_000;
    /** In place of the number of the next message. */
    private static final long BROKEN = -1;

    private final long link;
    private final Map<Long, Early> early = new HashMap<>();
    private long earlyBytes;
    private UcpEndpoint endpoint;
    private long expected;
    private long written;
    private long reported;
    private long unreportedSinceNs;
    private boolean leaving;

    /**
     * A message, or a write with its envelope, that arrived before its predecessor.
     *
     * @param head length of the envelope of a write, else 0
     */
    record Early(int head, byte[] bytes) {
        /** Approximate overhead of a map entry in Java. */
        private static final int OWN_BYTES = 256;

        /** Returns the memory that it uses, in bytes. */
        long cost() {
            return OWN_BYTES + bytes.length;
        }
    }

    Inflow(long link) {
        this.link = link;
    }

    long link() {
        return link;
    }

    /** Returns the endpoint for answers, {@code null} until it is known. */
    UcpEndpoint endpoint() {
        return endpoint;
    }

    void answerTo(UcpEndpoint newEndpoint) {
        endpoint = newEndpoint;
    }

    /** Returns whether a message is the next in order. */
    boolean isNext(long sequence) {
        return sequence == expected && expected != BROKEN;
    }

    void advance() {
        expected++;
    }

    /** Returns whether a message is new and arrived before its predecessor. */
    boolean isEarly(long sequence) {
        return expected != BROKEN && sequence > expected && !early.containsKey(sequence);
    }

    void keep(long sequence, Early message) {
        early.put(sequence, message);
        earlyBytes += message.cost();
    }

    /** Returns the memory used by early messages, in bytes. */
    long earlyBytes() {
        return earlyBytes;
    }

    /** Removes and returns the next message if it arrived early, else {@code null}. */
    Early next() {
        Early next = early.isEmpty() ? null : early.remove(expected);
        if (next != null) {
            earlyBytes -= next.cost();
        }
        return next;
    }

    /** Ignores everything that the peer sends from now on. */
    void breakOff() {
        early.clear();
        earlyBytes = 0;
        expected = BROKEN;
    }

    boolean isBroken() {
        return expected == BROKEN;
    }

    /** Counts a put that arrived completely. */
    void countPut() {
        if (written == reported) {
            unreportedSinceNs = System.nanoTime();
        }
        written++;
    }

    /** Returns the number of puts that arrived completely. */
    long written() {
        return written;
    }

    /** Notes that the peer has asked to be notified when everything has arrived. */
    void requestGoodbye() {
        leaving = true;
    }

    boolean isLeaving() {
        return leaving;
    }

    /**
     * Returns whether progress should be reported to the peer now: reports are batched, because each has a cost and the
     * peer does not block on them.
     */
    boolean isReportDue() {
        return endpoint != null && (leaving || written - reported >= MAX_UNREPORTED
                || written > reported && System.nanoTime() - unreportedSinceNs >= REPORT_DELAY_NS);
    }

    /** Notes that progress was reported to the peer. */
    void markReported() {
        reported = written;
        leaving = false;
    }
}
