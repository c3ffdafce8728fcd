package dev.starling.transport.tcp;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * What a link has yet to write to its connection, in order: bytes that were copied into the queue, and native memory
 * that the socket reads where it lies. Both kinds leave in one system call.
 */
final class SendQueue {
    /** Bytes that can wait; the longest message fits. */
    private static final int CAPACITY = Buffers.LARGE;
    /** Pieces of memory that can wait. */
    private static final int MAX_PIECES = 16;
    private static final int SEGMENTS = 2 * MAX_PIECES + 1;
    private static final int GATHERED = 16;

    private final UnsafeBuffer bytes;
    private final Segment[] segments = new Segment[SEGMENTS];
    private final ByteBuffer[] gathered = new ByteBuffer[GATHERED];
    private int first;
    private int count;
    private int tail;
    private int copied;
    private long waiting;
    private int pieces;

    /** Some bytes of the queue, or of memory elsewhere. */
    private static final class Segment {
        private final ByteBuffer queue;
        private final Window memory = new Window();
        /** Called when the memory has been read; {@code null} for bytes of the queue. */
        private @Nullable Runnable release;
        /** Offset in the queue, or address. */
        private long at;
        private int left;

        Segment(ByteBuffer queue) {
            this.queue = queue;
        }

        ByteBuffer bytes() {
            if (release == null) {
                return queue.clear().position((int) at).limit((int) at + left);
            }
            return memory.of(at, left);
        }
    }

    SendQueue(MemorySegment memory) {
        bytes = new UnsafeBuffer(memory.address(), CAPACITY);
        for (int i = 0; i < SEGMENTS; i++) {
            segments[i] = new Segment(Buffers.view(memory.address(), CAPACITY));
        }
    }

    /** Returns how many bytes wait. */
    long waiting() {
        return waiting;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** Returns whether a piece of memory can be appended. */
    boolean hasRoomForPiece() {
        return pieces < MAX_PIECES;
    }

    /** Returns where in {@link #bytes} a number of bytes can be written before {@link #append}, or -1. */
    int reserve(int length) {
        if (tail + length > CAPACITY) {
            if (copied + length > CAPACITY) {
                return -1;
            }
            compact();
        }
        return tail;
    }

    private void compact() {
        int head = tail - copied;
        bytes.putBytes(0, bytes, head, copied);
        tail = copied;
        for (int i = 0; i < count; i++) {
            Segment segment = segment(i);
            segment.at -= segment.release == null ? head : 0;
        }
    }

    MutableDirectBuffer bytes() {
        return bytes;
    }

    /** Appends the next bytes, which have been written where {@link #reserve} said. */
    void append(int length) {
        Segment last = count == 0 ? null : segment(count - 1);
        if (last == null || last.release != null) {
            last = add(tail, null);
        }
        last.left += length;
        tail += length;
        copied += length;
        waiting += length;
    }

    /** Appends a piece of memory, for which there {@linkplain #hasRoomForPiece is room}. */
    void append(long address, int length, Runnable release) {
        add(address, release).left = length;
        pieces++;
        waiting += length;
    }

    private Segment add(long at, @Nullable Runnable release) {
        Segment added = segment(count++);
        added.at = at;
        added.left = 0;
        added.release = release;
        return added;
    }

    private Segment segment(int index) {
        return segments[(first + index) % SEGMENTS];
    }

    /** Writes as much as there is room for; returns whether the queue is empty. */
    boolean writeTo(SocketChannel channel) throws IOException {
        while (count > 0) {
            int buffers = Math.min(count, GATHERED);
            long total = 0;
            for (int i = 0; i < buffers; i++) {
                gathered[i] = segment(i).bytes();
                total += gathered[i].remaining();
            }
            long written = buffers == 1 ? channel.write(gathered[0]) : channel.write(gathered, 0, buffers);
            remove(written);
            if (written < total) {
                return false;
            }
        }
        return true;
    }

    private void remove(long written) {
        long left = written;
        waiting -= written;
        while (count > 0) {
            Segment segment = segment(0);
            int some = (int) Math.min(left, segment.left);
            segment.at += some;
            segment.left -= some;
            left -= some;
            copied -= segment.release == null ? some : 0;
            if (segment.left > 0) {
                return;
            }
            removeFirst();
        }
        tail = 0;
    }

    private void removeFirst() {
        Segment segment = segment(0);
        Runnable release = segment.release;
        segment.release = null;
        first = (first + 1) % SEGMENTS;
        count--;
        if (release != null) {
            pieces--;
            release.run();
        }
    }

    /** Drops everything; the memory elsewhere is not read any more. */
    void clear() {
        while (count > 0) {
            removeFirst();
        }
        tail = 0;
        copied = 0;
        waiting = 0;
    }
}
