package dev.starling.transport.spi;

import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/** A one-way connection to one peer: reliable and in order as long as it lasts. Confined to the thread of its wire. */
public interface Link extends AutoCloseable {
    /**
     * Sends one message that consists of a header and a body, or sends nothing.
     *
     * @param body may be {@code null} if {@code bodyLength} is 0
     * @return {@link Wire#SENT}, {@link Wire#BACK_PRESSURED}, {@link Wire#NOT_CONNECTED} or {@link Wire#CLOSED}
     */
    int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
            int bodyOffset, int bodyLength);

    /**
     * Returns false if {@link #offer} would have no room now for a message of a length in bytes, as far as the link
     * knows without an attempt: saves the work of making a message that cannot be sent.
     */
    default boolean hasRoom(int length) {
        return true;
    }

    /**
     * Sends one message as {@link #offer} does, but may read the body, which is native memory, until it calls
     * {@code release}: now, in a later {@link Wire#poll}, or never if the wire is closed before. It calls it only if it
     * returns {@link Wire#SENT}.
     */
    default int offerInPlace(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body,
            int bodyOffset, int bodyLength, Runnable release) {
        int code = offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
        if (code == Wire.SENT) {
            release.run();
        }
        return code;
    }

    /** Lets the messages that follow wait until as many calls of {@link #flush}, so that they leave together. */
    default void hold() { }

    /** Sends what has waited, unless {@link #hold} was called more often than this method. */
    default void flush() { }

    /**
     * Returns whether the link knows, without an attempt, that {@link #offer} will return {@link Wire#CLOSED}, now or
     * once the peer's last messages are delivered. Cheap: it is asked often, so that the loss of a peer is noticed even
     * if nothing is sent to it.
     */
    default boolean isBroken() {
        return false;
    }

    /** Called when the process that {@link Wire#answer} answers has proven that it has the secret. */
    default void onProof() { }

    /** Ends the link; messages already sent are still delivered if the wire can. */
    @Override
    void close();

    /** Returns what is known of why the link is not connected yet, or an empty text. */
    default String obstacle() {
        return "";
    }
}
