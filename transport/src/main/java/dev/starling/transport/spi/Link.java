package dev.starling.transport.spi;

import org.agrona.DirectBuffer;

/** A one-way way to one peer: reliable and in order, as long as it lives. Confined to its wire's thread. */
public interface Link extends AutoCloseable {
    /**
     * Sends one message, made of two parts one after the other, or nothing.
     *
     * @param body may be {@code null} if {@code bodyLength} is 0
     * @return {@link Wire#SENT}, {@link Wire#BACK_PRESSURED}, {@link Wire#NOT_CONNECTED} or {@link Wire#CLOSED}
     */
    int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength);

    /** Ends the link; what was sent is still delivered if the wire can. */
    @Override
    void close();

    /** Returns what is known of why it is not connected yet, or an empty text. */
    default String obstacle() {
        return "";
    }
}
