package dev.starling.transport.ucx;

import java.util.HashMap;
import java.util.Map;
import org.openucx.jucx.ucp.UcpEndpoint;

/** What has come by one link of a peer. */
final class Inflow {
    private static final int MAX_UNTOLD = 256;
    private static final long UNTOLD_NS = 5_000_000;
    /** Instead of the number of the next message. */
    private static final long BROKEN = -1;

    private final long link;
    private final Map<Long, Early> early = new HashMap<>();
    private long earlyBytes;
    private UcpEndpoint endpoint;
    private long expected;
    private long written;
    private long told;
    private long untoldNs;
    private boolean leaving;

    /**
     * A message, or a write with all that precedes its data, that came before the one that was sent before it.
     *
     * @param head length of what precedes the data of a write, else 0
     */
    record Early(int head, byte[] bytes) {
        /** About what Java needs for an entry. */
        private static final int OWN_BYTES = 256;

        /** Returns how much memory it takes. */
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

    /** Returns where answers go, {@code null} until that is known. */
    UcpEndpoint endpoint() {
        return endpoint;
    }

    void answerTo(UcpEndpoint newEndpoint) {
        endpoint = newEndpoint;
    }

    /** Returns whether a message is the one whose turn it is. */
    boolean isNext(long sequence) {
        return sequence == expected && expected != BROKEN;
    }

    void advance() {
        expected++;
    }

    /** Returns whether a message has not come and is not the next. */
    boolean isEarly(long sequence) {
        return expected != BROKEN && sequence > expected && !early.containsKey(sequence);
    }

    void keep(long sequence, Early message) {
        early.put(sequence, message);
        earlyBytes += message.cost();
    }

    /** Returns how much memory it takes that messages came before their turn. */
    long earlyBytes() {
        return earlyBytes;
    }

    /** Returns the next message if it has come before its turn, or {@code null}. */
    Early next() {
        Early next = early.isEmpty() ? null : early.remove(expected);
        if (next != null) {
            earlyBytes -= next.cost();
        }
        return next;
    }

    /** Takes nothing any more that the other end sends. */
    void breakOff() {
        early.clear();
        earlyBytes = 0;
        expected = BROKEN;
    }

    boolean isBroken() {
        return expected == BROKEN;
    }

    /** Counts a put of which all is there. */
    void put() {
        if (written == told) {
            untoldNs = System.nanoTime();
        }
        written++;
    }

    /** Returns how many puts are there. */
    long written() {
        return written;
    }

    /** The other end wants to hear when all is there. */
    void leave() {
        leaving = true;
    }

    boolean isLeaving() {
        return leaving;
    }

    /** Returns whether the other end is to be told something: each answer has its price, and nobody waits for it. */
    boolean isToTell() {
        return endpoint != null && (leaving || written - told >= MAX_UNTOLD
                || written > told && System.nanoTime() - untoldNs >= UNTOLD_NS);
    }

    /** The other end is told. */
    void tell() {
        told = written;
        leaving = false;
    }
}
