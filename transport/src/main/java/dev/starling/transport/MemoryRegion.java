package dev.starling.transport;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory that peers which were given its {@link #key} may write into. Belongs to its {@link Transport}. Peers on the
 * same host map it, where that is possible and allowed.
 */
public final class MemoryRegion implements AutoCloseable {
    private final Transport owner;
    private final RegionKey key;
    private final MemorySegment memory;
    private final AutoCloseable storage;
    private final boolean shared;
    private boolean closed;

    MemoryRegion(Transport owner, long number, long token, long bytes, boolean share, Registrar registrar) {
        this.owner = owner;
        shared = share && SharedMemory.isAvailable();
        int descriptor = 0;
        if (shared) {
            SharedMemory made = SharedMemory.create(bytes, token);
            memory = made.memory();
            descriptor = made.descriptor();
            storage = made;
        } else {
            Arena arena = Arena.ofShared();
            memory = arena.allocate(bytes, 4096);
            storage = arena;
        }
        key = new RegionKey(number, token, bytes, shared ? ProcessHandle.current().pid() : 0, descriptor,
                registrar.register(memory));
    }

    /** Makes memory known to the wire's own remote writes. */
    interface Registrar {
        byte[] register(MemorySegment memory);
    }

    /** Returns the memory. Readable and writable by all threads until {@link #close}. */
    public MemorySegment memory() {
        return memory;
    }

    /** Returns what peers need to write here. */
    public RegionKey key() {
        return key;
    }

    /** Returns the size in bytes. */
    public long bytes() {
        return key.bytes();
    }

    Transport owner() {
        return owner;
    }

    boolean isClosed() {
        return closed;
    }

    /** Forbids further writes and gives the memory back. Peers that mapped it keep what they see until they close. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            owner.forget(this);
            try {
                storage.close();
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
