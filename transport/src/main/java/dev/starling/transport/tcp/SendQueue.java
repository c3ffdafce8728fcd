package dev.starling.transport.tcp;

import dev.starling.transport.tcp.Registrations.Registered;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * What a link has yet to write to its connection, in order: bytes that were copied into the queue, and registered
 * memory that the socket reads where it lies. Both kinds leave in one system call.
 */
final class SendQueue {
    /** Bytes that can wait; the longest message fits. */
    private static final int CAPACITY = Buffers.LARGE;
    /** Pieces of registered memory that can wait. */
    private static final int MAX_PIECES = 16;
    private static final int SEGMENTS = 2 * MAX_PIECES + 1;
    private static final int GATHERED = 8;

    private final UnsafeBuffer bytes;
    private final Segment[] segments = new Segment[SEGMENTS];
    private final ByteBuffer[] gathered = new ByteBuffer[GATHERED];
    private int first;
    private int count;
    private int tail;
    private int copied;
    private long piecesAdded;
    private long piecesSent;

    /** Some bytes of the queue, or of registered memory. */
    private static final class Segment {
        private final ByteBuffer queue;
        private Registered source;
        private long at;
        private long left;
        private ByteBuffer window;
        private Registered windowOf;
        private int windowNumber;

        Segment(ByteBuffer queue) {
            this.queue = queue;
        }

        ByteBuffer bytes() {
            if (source == null) {
                return queue.clear().position((int) at).limit((int) (at + left));
            }
            int number = Registrations.window(at);
            if (windowOf != source || windowNumber != number) {
                window = source.newWindow(number);
                windowOf = source;
                windowNumber = number;
            }
            return Registrations.narrowed(window, at, left);
        }
    }

    SendQueue(MemorySegment memory) {
        bytes = new UnsafeBuffer(memory.address(), CAPACITY);
        for (int i = 0; i < SEGMENTS; i++) {
            segments[i] = new Segment(Registrations.bytes(memory.address(), CAPACITY));
        }
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** Returns how many pieces of registered memory were added. */
    long piecesAdded() {
        return piecesAdded;
    }

    /** Returns how many of them were written to the connection completely. */
    long piecesSent() {
        return piecesSent;
    }

    boolean hasRoomForPiece() {
        return piecesAdded - piecesSent < MAX_PIECES;
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
            segment.at -= segment.source == null ? head : 0;
        }
    }

    MutableDirectBuffer bytes() {
        return bytes;
    }

    /** Adds the next bytes, which have been written where {@link #reserve} said. */
    void append(int length) {
        Segment last = count == 0 ? null : segment(count - 1);
        if (last == null || last.source != null) {
            last = add(null, tail);
        }
        last.left += length;
        tail += length;
        copied += length;
    }

    /** Adds a piece of registered memory, if there {@linkplain #hasRoomForPiece is room}. */
    void append(Registered source, long offset, long length) {
        add(source, offset).left = length;
        piecesAdded++;
    }

    private Segment add(Registered source, long at) {
        Segment added = segment(count++);
        added.source = source;
        added.at = at;
        added.left = 0;
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
        while (count > 0) {
            Segment segment = segment(0);
            long some = Math.min(left, segment.left);
            segment.at += some;
            segment.left -= some;
            left -= some;
            copied -= segment.source == null ? (int) some : 0;
            if (segment.left > 0) {
                return;
            }
            piecesSent += segment.source == null ? 0 : 1;
            segment.source = null;
            first = (first + 1) % SEGMENTS;
            count--;
        }
        tail = 0;
    }
}
