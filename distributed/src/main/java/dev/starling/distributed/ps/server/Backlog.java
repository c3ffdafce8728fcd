package dev.starling.distributed.ps.server;

import java.util.ArrayDeque;
import java.util.Deque;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableArrayBuffer;

/**
 * Requests that arrived while the ring was full. Their number is bounded by that of the requests in flight, at most one
 * for each unit and worker. Reuses its buffers.
 */
final class Backlog {
    private final Deque<Entry> waiting = new ArrayDeque<>();
    private final Deque<Entry> free = new ArrayDeque<>();

    private static final class Entry {
        final ExpandableArrayBuffer bytes = new ExpandableArrayBuffer();
        int length;
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

    /** Offers requests to the core until the ring is full again. */
    void drainTo(ServerCore core) {
        while (!waiting.isEmpty() && core.offer(waiting.peek().bytes, 0, waiting.peek().length)) {
            free.push(waiting.remove());
        }
    }
}
