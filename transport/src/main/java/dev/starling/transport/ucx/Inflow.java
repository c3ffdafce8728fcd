package dev.starling.transport.ucx;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.ucp.UcpEndpoint;

/** The receiving end of one link of a peer. */
final class Inflow {
    /** Approximate overhead of a map entry in Java. */
    private static final int ENTRY_BYTES = 256;
    /** In place of the number of the next message. */
    private static final long BROKEN = -1;

    private final long link;
    private final Map<Long, byte[]> early = new HashMap<>();
    private long earlyBytes;
    private @Nullable UcpEndpoint endpoint;
    private long expected;
    private boolean leaving;

    /** Returns the memory that a message which arrived before its predecessor uses, in bytes. */
    static long cost(byte[] message) {
        return ENTRY_BYTES + message.length;
    }

    Inflow(long link) {
        this.link = link;
    }

    long link() {
        return link;
    }

    /** Returns the endpoint for answers, {@code null} until it is known. */
    @Nullable UcpEndpoint endpoint() {
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

    void keep(long sequence, byte[] message) {
        early.put(sequence, message);
        earlyBytes += cost(message);
    }

    /** Returns the memory used by early messages, in bytes. */
    long earlyBytes() {
        return earlyBytes;
    }

    /** Removes and returns the next message if it arrived early, else {@code null}. */
    byte @Nullable [] next() {
        byte[] next = early.isEmpty() ? null : early.remove(expected);
        if (next != null) {
            earlyBytes -= cost(next);
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

    /** Notes that the peer has asked to be notified when everything has arrived. */
    void requestGoodbye() {
        leaving = true;
    }

    /** Returns whether the peer waits for the answer that everything has arrived. */
    boolean isAnswerDue() {
        return leaving && endpoint != null;
    }

    /** Notes that the peer was answered. */
    void markAnswered() {
        leaving = false;
    }
}
