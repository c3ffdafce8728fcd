package dev.starling.distributed.ps;

import java.util.ArrayDeque;
import java.util.Deque;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableArrayBuffer;

/**
 * Requests that came while the ring was full. As many as workers have under way, which is at most one for each unit and
 * worker. Keeps its buffers.
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

    /** Hands over as many as there is room for; returns how many. */
    int drainTo(ServerCore core) {
        int n = 0;
        while (!waiting.isEmpty() && core.offer(waiting.peek().bytes, 0, waiting.peek().length)) {
            free.push(waiting.remove());
            n++;
        }
        return n;
    }
}
