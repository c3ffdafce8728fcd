package dev.starling.transport.spi;

import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;

/**
 * Implemented by a {@link Wire} whose network can write into the memory of peers: the owner registers memory, its key
 * travels in a message, and the peer writes with it, without any action of the owner. Confined to the wire's thread.
 */
public interface RemoteWrites {
    /** Maximum length of a key in bytes. */
    int MAX_KEY_LENGTH = 512;

    /**
     * Lets peers that have the key write into native memory. The memory must outlive the registration. Where the
     * network itself writes ({@link Target#isOrdered} is false) but is only emulated in software, it must outlive the
     * wire, because nothing checks late writes.
     *
     * @throws dev.starling.transport.TransportException if the memory cannot be registered
     */
    Registration register(MemorySegment memory);

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

        /** Sets an interceptor for arriving data. A network that writes by itself does not call it. */
        default void onWrite(Interceptor interceptor) { }

        @Override
        void close();
    }

    /** Called by the wire with data that are about to be written; it may consume them in place, which saves a copy. */
    @FunctionalInterface
    interface Interceptor {
        /**
         * Offers all or part of the data of a write, in the order of arrival.
         *
         * @param offset in the registered memory, in bytes; {@code bytes} bytes from there lie within it
         * @param address of the data, valid until this method returns
         * @return whether the interceptor consumed the data: then they are not written
         */
        boolean consume(long offset, long address, int bytes);
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

        /**
         * Writes as {@link #put} does, and delivers a message once the data have arrived, as if the link had sent it
         * next. Only if this target is ordered.
         *
         * @param message copied, unless this method returns another code than SENT
         */
        default int putAndSend(long offset, MemorySegment source, Completion completion, long tag,
                DirectBuffer message, int messageOffset, int messageLength) {
            throw new UnsupportedOperationException("not ordered");
        }

        /**
         * Returns whether messages that the link sends after a write are delivered after the data of that write. Then a
         * peer can be notified of a write immediately, without waiting for its completion.
         */
        boolean isOrdered();

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
         * @param written whether the data are in the target's memory or, if the target is ordered, on their way there;
         *     otherwise the peer was lost
         */
        void onComplete(long tag, boolean written);
    }
}
