package dev.starling.transport;

import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import org.agrona.BufferUtil;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Memory that peers with its {@link #key} may write into. Owned by its {@link Transport}. Peers on the same host map
 * it, where that is possible and allowed.
 */
public final class MemoryRegion implements AutoCloseable {
    private static final int COPY_ALIGNMENT = 64;

    private final Regions owner;
    private final RegionKey key;
    private final MemorySegment memory;
    private final AllocatedMemory allocated;
    private final RemoteWrites.@Nullable Registration registration;
    /** Whether writes of peers may arrive as long as the wire is open, which nothing checks. */
    private final boolean outlivesWire;
    private final UnsafeBuffer view = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer copy = new UnsafeBuffer(0, 0);
    /** {@code null} for none. */
    private @Nullable Interceptor interceptor;
    private final Runnable release = this::drop;
    /** Number of writes by the wire that still read from this region. */
    private int inFlight;
    private boolean closed;

    /** Creates a region. {@code remote} is {@code null} if the wire has no remote writes of its own. */
    MemoryRegion(Regions owner, long number, AllocatedMemory allocated, @Nullable RemoteWrites remote) {
        this.owner = owner;
        this.allocated = allocated;
        memory = allocated.segment();
        registration = remote == null || memory.byteSize() == 0 ? null : remote.register(memory);
        outlivesWire = registration != null && remote != null && remote.areEmulated();
        key = allocated.key(number, registration == null ? new byte[0] : registration.key());
    }

    /** Returns the memory. All threads may read and write it until {@link #close}. */
    public MemorySegment memory() {
        return memory;
    }

    /** Returns the key that peers need for writing into this region. */
    public RegionKey key() {
        return key;
    }

    /** Returns the size in bytes. */
    public long bytes() {
        return key.bytes();
    }

    /**
     * Sets an interceptor, which is offered the data of arriving puts before they are copied into this region and may
     * consume them in place; where puts arrive as messages this saves a copy. It does not see writes by another process
     * into memory that both map, writes that the network performs by itself, or data that had to be reassembled from
     * fragments.
     */
    public void onWrite(Interceptor newInterceptor) {
        interceptor = newInterceptor;
    }

    /** Is called with data that are about to be written; it may consume them in place, which saves a copy. */
    @FunctionalInterface
    public interface Interceptor {
        /**
         * Offers all or part of the data of a write, in the order of arrival.
         *
         * @param offset in the region, in bytes; {@code bytes} bytes from there lie within it
         * @param address of the data, valid until this method returns
         * @return whether the interceptor consumed the data: then they are not written
         */
        boolean consume(long offset, long address, int bytes);
    }

    /** Checks that a range lies within a region of a given size. */
    static void requireRange(String what, long offset, long bytes, long size) {
        if (offset < 0 || bytes < 0 || offset > size - bytes) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "the " + what + " range, " + bytes
                    + " bytes from offset " + offset + ", lies outside of a region of " + size + " bytes", "");
        }
    }

    /** Copies received bytes into the region; the caller has checked that they fit. */
    void write(long offset, DirectBuffer from, int at, int length) {
        Interceptor first = interceptor;
        // The interceptor may close this region.
        if (first == null || !first.consume(offset, nativeAddress(from, at, length), length) && !closed) {
            view.wrap(memory.address() + offset, length);
            from.getBytes(at, view, 0, length);
        }
    }

    /** Returns the address of bytes, which are copied if they are in an array: those have none. */
    private long nativeAddress(DirectBuffer from, int at, int length) {
        if (from.byteArray() == null) {
            return from.addressOffset() + at;
        }
        if (copy.capacity() < length) {
            copy.wrap(BufferUtil.allocateDirectAligned(length, COPY_ALIGNMENT));
        }
        copy.putBytes(0, from, at, length);
        return copy.addressOffset();
    }

    /** Returns whether an interceptor is offered what arrives. */
    boolean isIntercepted() {
        return interceptor != null;
    }

    boolean isClosed() {
        return closed;
    }

    /**
     * Forbids further writes and releases the memory. Peers that mapped it keep their mapping until they close it.
     * Where the wire's own writes are emulated, the memory is released when the transport is closed.
     */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            try {
                owner.remove(this);
            } finally { // A completion may throw an exception.
                if (registration != null) {
                    registration.close();
                }
                if (inFlight == 0 && !outlivesWire) {
                    free();
                } else {
                    owner.defer(this);
                }
            }
        }
    }

    /** Returns whether the wire still accesses the memory. */
    boolean isHeld() {
        return inFlight > 0;
    }

    /** Keeps the memory until {@link #drop}, even if the region is closed meanwhile. */
    void hold() {
        inFlight++;
    }

    /** Returns {@link #drop} as an object that exists once. */
    Runnable release() {
        return release;
    }

    void drop() {
        if (--inFlight == 0 && closed && !outlivesWire) {
            owner.undefer(this);
            free();
        }
    }

    /** Releases the memory; called when no write can access it any more. */
    void free() {
        inFlight = 0;
        allocated.free();
    }
}
