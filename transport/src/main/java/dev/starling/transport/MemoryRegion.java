package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Memory that peers which were given its {@link #key} may write into. Belongs to its {@link Transport}. Peers on the
 * same host map it, where that is possible and allowed.
 */
public final class MemoryRegion implements AutoCloseable {
    /** Moving memory into large pages takes a millisecond per mebibyte, so that little must not be moved. */
    private static final long WORTH_LARGE_PAGES = 16 << 20;

    private final Transport owner;
    private final RegionKey key;
    private final MemorySegment memory;
    private final AutoCloseable storage;
    private final RemoteWrites.Registration registration;
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private RemoteWrites.Interceptor interceptor = (_, _, _) -> false;
    /** Writes by the wire that read from here. */
    private int inFlight;
    private boolean closed;

    /** {@code remote} is {@code null} if the wire does not write into memory itself. */
    MemoryRegion(Transport owner, long number, long token, long bytes, boolean share, RemoteWrites remote) {
        this.owner = owner;
        boolean shared = share && SharedMemory.isAvailable();
        int descriptor = 0;
        if (shared) {
            SharedMemory made = SharedMemory.create(bytes, token);
            memory = made.memory();
            descriptor = made.descriptor();
            storage = made;
        } else {
            Arena arena = Arena.ofShared();
            boolean large = bytes >= WORTH_LARGE_PAGES;
            memory = arena.allocate(bytes, large ? SharedMemory.LARGE_PAGE : 4096);
            if (large) {
                SharedMemory.collapse(memory);
            }
            storage = arena;
        }
        registration = remote == null || bytes == 0 ? null : remote.register(memory);
        key = new RegionKey(number, token, bytes, shared ? ProcessHandle.current().pid() : 0, descriptor,
                registration == null ? new byte[0] : registration.key());
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

    /**
     * Sets who sees what comes by puts before it is written here, and may use it up: where it comes in messages, this
     * spares a copy. What another process writes into memory that both map, or the network by itself, nobody sees; nor
     * what had to be put together from fragments.
     */
    public void onWrite(RemoteWrites.Interceptor newInterceptor) {
        interceptor = newInterceptor;
        if (registration != null) {
            registration.onWrite(newInterceptor);
        }
    }

    /** Writes bytes that came, of which it is known that they fit in. */
    void write(long offset, DirectBuffer from, int at, int length) {
        // Bytes in an array have no address.
        if (from.byteArray() != null || !interceptor.take(offset, from.addressOffset() + at, length)) {
            view.wrap(memory.address() + offset, length);
            from.getBytes(at, view, 0, length);
        }
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
            if (registration != null) {
                registration.close();
            }
            if (inFlight == 0) {
                free();
            } else {
                owner.defer(this);
            }
        }
    }

    /** Keeps the memory until {@link #drop}, even if the region is closed. */
    void hold() {
        inFlight++;
    }

    void drop() {
        if (--inFlight == 0 && closed) {
            owner.undefer(this);
            free();
        }
    }

    /** Gives the memory back, when nothing can read from it any more. */
    void free() {
        inFlight = 0;
        try {
            storage.close();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
