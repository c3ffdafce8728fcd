package dev.starling.transport.spi;

import java.util.Optional;
import org.agrona.concurrent.NanoClock;
import org.jspecify.annotations.Nullable;

/**
 * A way to carry whole messages to other processes, reliably and in order on each {@link Link}. A wire neither
 * authenticates nor answers: the layer above establishes where messages are from, whether to trust them, and what they
 * mean. Used by one thread at a time; starts no work that {@link #poll} or {@link Link#offer} does not drive, other
 * than what its own library does in threads that it owns and stops in {@link #close}.
 */
public interface Wire extends AutoCloseable {
    /** The message was accepted. */
    int SENT = 1;

    /** There is no room at the moment; try again after polling. */
    int BACK_PRESSURED = -1;

    /** The peer is not there yet; try again later. */
    int NOT_CONNECTED = -2;

    /**
     * The link was closed here, or the other end is permanently gone and everything that it sent to this wire and that
     * can still arrive has been delivered. Until then a link to a lost peer has no room, so that the peer's last
     * messages are processed before it is given up.
     */
    int CLOSED = -3;

    /**
     * Returns the address at which peers reach this wire: the argument of their {@link #open}. Printable ASCII, at most
     * 512 characters.
     */
    String address();

    /**
     * Opens another wire of this process, with another address, if its provider cannot do that by {@link
     * WireProvider#open}.
     */
    default Optional<Wire> another() {
        return Optional.empty();
    }

    /** Returns the maximum length in bytes of a message for {@link Link#offer}; at least 32 KiB. */
    int maxMessageLength();

    /**
     * Returns the length in bytes of the messages that carry bulk data fastest, at most {@link #maxMessageLength}; for
     * example the payload of one datagram.
     */
    default int bulkMessageLength() {
        return maxMessageLength();
    }

    /**
     * Begins a link to the wire at an address. Returns immediately; the result of {@link Link#offer} shows when the
     * peer is reached.
     *
     * @throws dev.starling.transport.TransportException if this is not an address of this kind of wire
     */
    Link open(String address);

    /**
     * As {@link #open}, to answer a process that may be a stranger until {@link Link#onProof}. A wire may grant such
     * processes no more for it.
     */
    default Link answer(String address) {
        return open(address);
    }

    /**
     * Returns whether {@link #open} takes no time: not so if the address contains a name that must be looked up. Only
     * such addresses are opened on behalf of strangers.
     */
    default boolean opensImmediately(String peer) {
        return true;
    }

    /**
     * Delivers messages that have arrived from any peer, and does the wire's periodic work.
     *
     * @return the number of messages delivered plus other work done; 0 if idle
     */
    int poll(Inbox inbox, int limit);

    /**
     * Called within {@link Inbox#onMessage} if the message proves that its sender has the secret. A wire may grant the
     * connection on which it arrived more than it grants to strangers.
     */
    default void onProof() { }

    /**
     * Called within {@link Inbox#onMessage} if the message is signed with the secret, but may be a recording: its
     * sender has yet to prove that it has the secret. A wire may prefer the connection on which it arrived to those of
     * strangers.
     */
    default void onSignature() { }

    /** Returns the clock by which all deadlines are measured. */
    default NanoClock clock() {
        return System::nanoTime;
    }

    /**
     * Lets time pass while there is nothing to do: how a waiting caller waits. A simulated wire lets other processes
     * run.
     *
     * @param idleNs for how long this caller has found nothing to do
     */
    void idle(long idleNs);

    /** Returns whether messages leave when they are offered, as far as there is room, and not only in a later poll. */
    default boolean sendsImmediately() {
        return false;
    }

    /**
     * Returns whether {@link Link#offerInPlace} saves a copy of the body, whose bytes the network's own checksums then
     * protect.
     */
    default boolean sendsInPlace() {
        return false;
    }

    /** Returns the writes that the network performs by itself, or {@code null} if it performs none. */
    default @Nullable RemoteWrites remoteWrites() {
        return null;
    }

    /**
     * Returns whether messages to and from an address may travel over a network in which others can read and change
     * them; then the layer above protects them. False if they stay on this host, or if the wire is meant for networks
     * that only trusted hosts can reach.
     */
    default boolean leavesHost(String peer) {
        return false;
    }

    /**
     * Sets how many threads of this machine exchange messages at the same time, this process's included; the default is
     * 1. If each has a processor, {@link #idle} may spin.
     */
    default void pollingThreads(int threads) { }

    /** Returns whether a peer may be able to map this process's memory; false in a simulation. */
    default boolean mapsMemory() {
        return true;
    }

    /** Closes all links, ends all threads, and frees all memory and files of this wire. */
    @Override
    void close();
}
