package dev.starling.transport.ucx;

import java.lang.foreign.Arena;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.ucp.UcpRequest;

/**
 * Bytes that one link has passed to UCX and that UCX still reads: a ring in native memory, allocated in order, and
 * freed in order as the requests that hold it complete.
 */
final class SendRing implements AutoCloseable {
    private static final int MAX_REQUESTS = 256;

    private final Arena arena = Arena.ofShared();
    private final int capacity;
    private final long address;
    private final UnsafeBuffer buffer;
    private final UcpRequest[] requests = new UcpRequest[MAX_REQUESTS];
    private final int[] ends = new int[MAX_REQUESTS];
    private final @Nullable Runnable[] releases = new Runnable[MAX_REQUESTS];
    private int head;
    private int count;
    private int start;
    private int end;

    SendRing(int capacity) {
        this.capacity = capacity;
        address = arena.allocate(capacity, 4096).address();
        buffer = new UnsafeBuffer(address, capacity);
    }

    /**
     * Returns the position of a number of contiguous free bytes, or -1. They remain free unless {@link #hold} is called
     * for them.
     */
    int claim(int length) {
        reclaim();
        if (count == MAX_REQUESTS) {
            return -1;
        }
        // The bytes held are [start, end) or, wrapped, [start, capacity) and [0, end); start == end only if nothing is
        // held.
        if (count == 0) {
            start = 0;
            end = 0;
        }
        if (end < start) {
            return length < start - end ? end : -1;
        }
        if (length <= capacity - end) {
            return end;
        }
        return length < start ? 0 : -1;
    }

    /** Holds claimed bytes until the request completes; then {@link #reclaim} calls {@code release} if not null. */
    void hold(int at, int length, UcpRequest request, @Nullable Runnable release) {
        end = at + length;
        int tail = (head + count) % MAX_REQUESTS;
        requests[tail] = request;
        ends[tail] = end;
        releases[tail] = release;
        count++;
    }

    /** Returns whether nothing is held. */
    boolean isEmpty() {
        reclaim();
        return count == 0;
    }

    /** Returns the whole ring. */
    UnsafeBuffer buffer() {
        return buffer;
    }

    /** Returns the native address of the first byte. */
    long address() {
        return address;
    }

    /** Frees the bytes of completed requests. */
    void reclaim() {
        while (count > 0 && requests[head].isCompleted()) {
            Runnable release = releases[head];
            requests[head] = null;
            releases[head] = null;
            start = ends[head];
            head = (head + 1) % MAX_REQUESTS;
            count--;
            if (release != null) {
                release.run();
            }
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
