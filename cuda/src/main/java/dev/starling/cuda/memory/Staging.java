package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.Waits;
import java.lang.foreign.MemorySegment;

/**
 * Copies between pageable host memory and the device through a ring of pinned buffers: while one buffer is filled, the
 * copies of others are under way. An upload returns when its last piece is in a pinned buffer; the device copies while
 * the caller continues. Before a buffer is used again, its next user waits for the copy from it. Safe for use by
 * several threads, which wait for each other.
 */
public final class Staging {
    /** Copies of up to this size are fastest in one piece. */
    static final long PIECE = 4L << 20;
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Buffer[] buffers;
    private final long piece;
    private int turn;

    /** A pinned buffer, the event of its last copy, and whether that copy may be under way. */
    private static final class Buffer {
        private final long address;
        private final Gpu.Event done;
        private boolean busy;

        Buffer(long address, Gpu.Event done) {
            this.address = address;
            this.done = done;
        }
    }

    /** Makes up to {@code count} buffers, each at its first use, for copies in the order of {@code stream}. */
    public Staging(Gpu gpu, Gpu.Stream stream, int count) {
        this(gpu, stream, count, PIECE);
    }

    /** Makes buffers of {@code piece} bytes. */
    Staging(Gpu gpu, Gpu.Stream stream, int count, long piece) {
        this.gpu = gpu;
        this.piece = piece;
        this.stream = stream;
        buffers = new Buffer[count];
    }

    private Buffer next() {
        turn = (turn + 1) % buffers.length;
        if (buffers[turn] == null) {
            buffers[turn] = new Buffer(gpu.allocatePinned(piece), gpu.event());
        }
        if (buffers[turn].busy) {
            Waits.await(gpu, buffers[turn].done, "pinned buffer");
            buffers[turn].busy = false;
        }
        return buffers[turn];
    }

    /** Queues a copy to the device; the host memory may be changed when the call returns. */
    public synchronized void upload(long host, long device, long bytes) {
        for (long at = 0; at < bytes; at += piece) {
            long n = Math.min(piece, bytes - at);
            Buffer buffer = next();
            MemorySegment.copy(ALL, host + at, ALL, buffer.address, n);
            gpu.upload(buffer.address, device + at, n, stream);
            record(buffer);
        }
    }

    /** Copies to the host, after all work queued before; returns when the bytes have arrived. */
    public synchronized void download(long device, long host, long bytes) {
        if (bytes > 0 && bytes <= piece) {
            Buffer buffer = next();
            gpu.download(device, buffer.address, bytes, stream);
            Waits.synchronize(gpu, stream, "download");
            MemorySegment.copy(ALL, buffer.address, ALL, host, bytes);
            return;
        }
        Buffer before = null;
        long beforeAt = 0;
        for (long at = 0; at < bytes; at += piece) {
            Buffer buffer = next();
            gpu.download(device + at, buffer.address, Math.min(piece, bytes - at), stream);
            record(buffer);
            if (before != null) {
                deliver(before, host + beforeAt, piece);
            }
            before = buffer;
            beforeAt = at;
        }
        if (before != null) {
            deliver(before, host + beforeAt, bytes - beforeAt);
        }
    }

    private void record(Buffer buffer) {
        buffer.busy = true;
        gpu.record(buffer.done, stream);
    }

    private void deliver(Buffer buffer, long host, long bytes) {
        Waits.await(gpu, buffer.done, "download");
        buffer.busy = false;
        MemorySegment.copy(ALL, buffer.address, ALL, host, bytes);
    }
}
