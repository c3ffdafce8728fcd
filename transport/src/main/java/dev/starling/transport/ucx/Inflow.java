package dev.starling.transport.ucx;

import java.util.HashMap;
import java.util.Map;
import org.openucx.jucx.ucp.UcpEndpoint;

/** What has come by one link of a peer. */
final class Inflow {
    private static final int MOST_UNTOLD = 256;
    private static final long UNTOLD_NS = 5_000_000;

    private final long link;
    private final Map<Long, Early> early = new HashMap<>();
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
    record Early(int head, byte[] bytes) { }

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

    /** Returns the number of the next message. */
    long expected() {
        return expected;
    }

    void advance() {
        expected++;
    }

    void keep(long sequence, Early message) {
        early.put(sequence, message);
    }

    /** Returns the next message if it has come before its turn, or {@code null}. */
    Early next() {
        return early.isEmpty() ? null : early.remove(expected);
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
        return endpoint != null && (leaving || written - told >= MOST_UNTOLD
                || written > told && System.nanoTime() - untoldNs >= UNTOLD_NS);
    }

    /** The other end is told. */
    void tell() {
        told = written;
        leaving = false;
    }
}
