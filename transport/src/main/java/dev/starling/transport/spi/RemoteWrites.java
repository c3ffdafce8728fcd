package dev.starling.transport.spi;

import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;

/**
 * What a {@link Wire} whose network writes into the memory of peers implements besides: memory is registered at its
 * owner, its key travels in a message, and the peer writes with it, without the owner's code taking part. Used by the
 * wire's thread.
 */
public interface RemoteWrites {
    /** Longest key in bytes. */
    int MAX_KEY_LENGTH = 512;

    /**
     * Lets peers that are told the key write into native memory. The memory must outlive the registration; where the
     * network itself writes ({@link Target#isOrdered} is false) and is only emulated in software, it must outlive the
     * wire, as nobody checks writes that are late.
     *
     * @throws dev.starling.transport.TransportException if it cannot be registered
     */
    Registration register(MemorySegment memory);

    /**
     * Begins writing into memory that the other end of a link registered. The link must be connected: it has sent.
     *
     * @param link of this wire
     * @param key {@link Registration#key} of the peer
     * @throws dev.starling.transport.TransportException if the key is none or the link is not connected
     */
    Target attach(Link link, byte[] key);

    /** Memory that peers may write into; what they write after it is closed is dropped, or breaks the link. */
    interface Registration extends AutoCloseable {
        /** Returns what {@link #attach} takes; at most {@link #MAX_KEY_LENGTH} bytes. */
        byte[] key();

        /**
         * Sets who sees what comes before it is written. A network that writes by itself does not ask.
         */
        default void onWrite(Interceptor interceptor) { }

        @Override
        void close();
    }

    /** Sees what is about to be written, and may use it up where it is, which spares a copy. Called by the wire. */
    @FunctionalInterface
    interface Interceptor {
        /**
         * Takes what is to be written, or part of it, in the order in which it comes.
         *
         * @param offset in the memory, in bytes; so many bytes from there on are within it
         * @param address where the bytes are, until this returns
         * @return whether it has taken them: then they are not written
         */
        boolean take(long offset, long address, int bytes);
    }

    /** Registered memory of a peer. */
    interface Target extends AutoCloseable {
        /**
         * Begins to write. The source must be native memory and stay as it is until the completion is called; writes
         * are not ordered among each other.
         *
         * @param offset in the target's memory, in bytes
         * @param source to copy, all of it
         * @param completion called once by {@link Wire#poll}, unless this method returns another code than SENT or the
         *     wire is closed
         * @param tag handed to the completion
         * @return {@link Wire#SENT}, {@link Wire#BACK_PRESSURED} or {@link Wire#CLOSED}
         * @throws dev.starling.transport.TransportException if it is not within the target's memory
         */
        int put(long offset, MemorySegment source, Completion completion, long tag);

        /**
         * As {@link #put}, and hands a message over once the data are there, as if the link had sent it next. Only if
         * this is ordered.
         *
         * @param message copied, unless this method returns another code than SENT
         */
        default int putAndSend(long offset, MemorySegment source, Completion completion, long tag,
                DirectBuffer message, int messageOffset, int messageLength) {
            throw new UnsupportedOperationException("not ordered");
        }

        /**
         * Returns whether messages that are sent by the link after a write are handed over after its data are there,
         * so that the peer can be told of a write at once, without awaiting its completion.
         */
        boolean isOrdered();

        /** Ends writing; what was begun is still completed. */
        @Override
        void close();
    }

    /** Hears what became of a write. */
    @FunctionalInterface
    interface Completion {
        /**
         * Called when the source may be used again.
         *
         * @param tag that the write was given
         * @param written whether the data are in the target's memory; else the peer was lost
         */
        void onComplete(long tag, boolean written);
    }
}
