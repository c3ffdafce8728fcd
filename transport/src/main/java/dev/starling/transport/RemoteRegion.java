package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** A handle to a peer's {@link MemoryRegion}. */
public final class RemoteRegion implements AutoCloseable {
    private final Endpoint endpoint;
    private final RegionKey key;
    private final @Nullable SharedMemory mapped;
    private RemoteWrites.@Nullable Target target;
    private boolean closed;

    RemoteRegion(Endpoint endpoint, RegionKey key, @Nullable SharedMemory mapped) {
        this.endpoint = endpoint;
        this.key = key;
        this.mapped = mapped;
    }

    /** Returns the size in bytes. */
    public long bytes() {
        return key.bytes();
    }

    /**
     * Returns the peer's memory itself if it is on the same host and could be mapped, else {@code null}. The peer sees
     * writes to it immediately; the two processes have to agree on when each of them reads and writes.
     */
    public @Nullable MemorySegment memory() {
        return mapped == null ? null : mapped.memory();
    }

    /** Returns the wire's own target for remote writes, or {@code null} if the wire has none. */
    RemoteWrites.@Nullable Target target() {
        if (target == null && !closed && mapped == null) {
            target = endpoint.target(key);
        }
        return target;
    }

    Endpoint endpoint() {
        return endpoint;
    }

    RegionKey key() {
        return key;
    }

    boolean isClosed() {
        return closed;
    }

    /**
     * Unmaps the memory. Puts that have begun are completed; those that have not fail, and the peer is not notified of
     * them.
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        try {
            endpoint.puts.cancel(this);
        } finally { // A completion may throw an exception.
            if (target != null) {
                target.close();
                target = null;
            }
            if (mapped != null) {
                mapped.close();
            }
        }
    }
}
