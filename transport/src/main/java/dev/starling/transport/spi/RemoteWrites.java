package dev.starling.transport.spi;

import java.lang.foreign.MemorySegment;

/**
 * Writes by the network itself into the memory of peers: the owner registers memory, its key travels in a message, and
 * the peer writes with it, without any action of the owner. Confined to the wire's thread.
 */
public interface RemoteWrites {
    /** Maximum length of a key in bytes. */
    int MAX_KEY_LENGTH = 512;

    /**
     * Lets peers that have the key write into native memory. The memory must outlive the registration, and where writes
     * are only emulated in software the wire, because nothing checks late ones.
     *
     * @throws dev.starling.transport.TransportException if the memory cannot be registered
     */
    Registration register(MemorySegment memory);

    /**
     * Returns whether software may perform writes: then nothing checks late ones, and the memory must outlive the wire.
     */
    default boolean areEmulated() {
        return true;
    }

    /**
     * Opens memory that the other end of a link registered. The link must be connected: it has sent a message.
     *
     * @param link of this wire
     * @param key {@link Registration#key} of the peer
     * @throws dev.starling.transport.TransportException if the key is malformed or the link is not connected
     */
    Target attach(Link link, byte[] key);

    /** Memory that peers may write into. Writes that arrive after it is closed are dropped, or break the link. */
    interface Registration extends AutoCloseable {
        /** Returns the key for {@link #attach}; at most {@link #MAX_KEY_LENGTH} bytes. */
        byte[] key();

        @Override
        void close();
    }

    /** Registered memory of a peer. */
    interface Target extends AutoCloseable {
        /**
         * Begins to write. The source must be native memory and must not change until the completion is called. Writes
         * are not ordered among each other.
         *
         * @param offset in the target's memory, in bytes
         * @param source copied as a whole
         * @param completion called once by {@link Wire#poll}, unless this method returns another code than SENT or the
         *     wire is closed
         * @param tag passed to the completion
         * @return {@link Wire#SENT}, {@link Wire#BACK_PRESSURED} or {@link Wire#CLOSED}
         * @throws dev.starling.transport.TransportException if the range is not within the target's memory
         */
        int put(long offset, MemorySegment source, Completion completion, long tag);

        /** Ends writing; writes that have begun are still completed. */
        @Override
        void close();
    }

    /** Callback for the outcome of a write. */
    @FunctionalInterface
    interface Completion {
        /**
         * Called when the source may be changed again.
         *
         * @param tag of the write
         * @param written whether the data are in the target's memory; otherwise the peer was lost
         */
        void onComplete(long tag, boolean written);
    }
}
