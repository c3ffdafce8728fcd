package dev.starling.distributed.ps.server;

import java.util.ArrayDeque;
import java.util.Deque;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableArrayBuffer;

/**
 * Copies of messages that wait for room: requests while the core's ring is full, or replies while a worker's link is.
 * Their number is bounded by that of the requests in flight. Reuses some of its buffers.
 */
final class Backlog {
    private static final int MAX_FREE = 64;

    private final Deque<Entry> waiting = new ArrayDeque<>();
    private final Deque<Entry> free = new ArrayDeque<>();

    private static final class Entry {
        final ExpandableArrayBuffer bytes = new ExpandableArrayBuffer();
        int length;
    }

    /** Receives a message, or returns false if there is no room for it. */
    @FunctionalInterface
    interface Sink {
        boolean offer(DirectBuffer buffer, int offset, int length);
    }

    void add(DirectBuffer buffer, int offset, int length) {
        Entry entry = free.isEmpty() ? new Entry() : free.pop();
        entry.bytes.putBytes(0, buffer, offset, length);
        entry.length = length;
        waiting.add(entry);
    }

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    int size() {
        return waiting.size();
    }

    /** Passes messages on, in order, until there is no room for one. */
    void drainTo(Sink sink) {
        while (!waiting.isEmpty() && sink.offer(waiting.peek().bytes, 0, waiting.peek().length)) {
            Entry entry = waiting.remove();
            if (free.size() < MAX_FREE) {
                free.push(entry);
            }
        }
    }

    /** Drops all messages, and frees their memory. */
    void clear() {
        waiting.clear();
        free.clear();
    }
}
