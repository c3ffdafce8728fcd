package dev.starling.transport.spi;

import org.agrona.concurrent.NanoClock;

/**
 * What a provider brings: a way to carry whole messages to other processes, reliably and in order on each
 * {@link Link}. Who they come from, whether they may be believed and what they mean is the business of the layer
 * above, so a wire neither authenticates nor answers. Used by one thread at a time; starts no work that
 * {@link #poll} or {@link Link#offer} does not drive, other than what its own library does in threads it owns and
 * stops in {@link #close}.
 */
public interface Wire extends AutoCloseable {
    /** The message is on its way. */
    int SENT = 1;

    /** No room at the moment; try again after polling. */
    int BACK_PRESSURED = -1;

    /** Nobody is there yet; try again later. */
    int NOT_CONNECTED = -2;

    /**
     * The other end is gone for good, and what it sent to this wire and can still come has been handed over; or the
     * link was closed. So a peer's last words are heard before it is given up; until then there is no room.
     */
    int CLOSED = -3;

    /** Returns where peers reach this wire: what their {@link #open} takes. Printable ASCII, at most 512 characters. */
    String address();

    /** Returns the length in bytes of the longest message that {@link Link#offer} takes; at least 32 KiB. */
    int maxMessageLength();

    /**
     * Returns the length in bytes of the messages that carry bulk data fastest, at most {@link #maxMessageLength}; for
     * example what one datagram takes.
     */
    default int bulkMessageLength() {
        return maxMessageLength();
    }

    /**
     * Begins a link to the wire of that address. Returns at once; {@link Link#offer} tells when somebody is there.
     *
     * @throws dev.starling.transport.TransportException if this is no address of this kind of wire
     */
    Link open(String address);

    /**
     * Returns whether {@link #open} takes no time: not so if the address holds a name that must be looked up. What
     * strangers give is opened only if so.
     */
    default boolean opensAtOnce(String peer) {
        return true;
    }

    /**
     * Hands over messages that came, from whatever peer, and does what else the wire needs done from time to time.
     *
     * @return the number of messages handed over and other work done; 0 if idle
     */
    int poll(Inbox inbox, int limit);

    /** Returns the clock that all deadlines are measured by. */
    default NanoClock clock() {
        return System::nanoTime;
    }

    /**
     * Lets time pass while there is nothing to do: how a waiting caller waits. A simulated wire lets the others run.
     *
     * @param idleNs for how long this caller has found nothing to do
     */
    void idle(long idleNs);

    /** Returns whether a peer may be able to map this process's memory; false in a simulation. */
    default boolean mapsMemory() {
        return true;
    }

    /** Closes all links, ends all threads, and frees all memory and files of this wire. */
    @Override
    void close();
}
