package dev.starling.transport.tcp;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Queue;

/**
 * Native memory for connections, in blocks of two lengths. A released block is used again, because freeing memory that
 * several threads may use takes longer than a stranger needs to open a connection.
 */
final class Buffers implements AutoCloseable {
    /** For a peer that is unproven. */
    static final int SMALL = 16 << 10;
    /** For a peer, in either direction; small enough to stay in a processor's cache. */
    static final int LARGE = 256 << 10;

    private static final int ALIGNMENT = 64;

    private final Arena arena = Arena.ofShared();
    private final Queue<MemorySegment> small = new ArrayDeque<>();
    private final Queue<MemorySegment> large = new ArrayDeque<>();

    MemorySegment acquireSmall() {
        return acquire(small, SMALL);
    }

    MemorySegment acquireLarge() {
        return acquire(large, LARGE);
    }

    /** Returns a byte buffer over native memory that others manage. */
    static ByteBuffer view(long address, int length) {
        return MemorySegment.ofAddress(address).reinterpret(length).asByteBuffer();
    }

    private MemorySegment acquire(Queue<MemorySegment> free, int length) {
        MemorySegment block = free.poll();
        return block == null ? arena.allocate(length, ALIGNMENT) : block;
    }

    void release(MemorySegment block) {
        (block.byteSize() == SMALL ? small : large).add(block);
    }

    /** Frees all blocks. */
    @Override
    public void close() {
        arena.close();
    }
}
