package dev.starling.transport.spi;

import org.agrona.DirectBuffer;

/** A one-way connection to one peer: reliable and in order as long as it lasts. Confined to the thread of its wire. */
public interface Link extends AutoCloseable {
    /**
     * Sends one message that consists of a header and a body, or sends nothing.
     *
     * @param body may be {@code null} if {@code bodyLength} is 0
     * @return {@link Wire#SENT}, {@link Wire#BACK_PRESSURED}, {@link Wire#NOT_CONNECTED} or {@link Wire#CLOSED}
     */
    int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength);

    /** Ends the link; messages already sent are still delivered if the wire can. */
    @Override
    void close();

    /** Returns what is known of why the link is not connected yet, or an empty text. */
    default String obstacle() {
        return "";
    }
}
