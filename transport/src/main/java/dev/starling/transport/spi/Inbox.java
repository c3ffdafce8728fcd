package dev.starling.transport.spi;

import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** Receives the messages of a wire. */
@FunctionalInterface
public interface Inbox {
    /** Receives a message, which may be any bytes; the buffer is valid during the call only. */
    void onMessage(DirectBuffer buffer, int offset, int length);

    /** Receives a message that arrived in two parts; joins them, unless it is overridden. */
    default void onParts(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        UnsafeBuffer whole = new UnsafeBuffer(new byte[headerLength + bodyLength]);
        whole.putBytes(0, header, headerOffset, headerLength);
        whole.putBytes(headerLength, body, bodyOffset, bodyLength);
        onMessage(whole, 0, whole.capacity());
    }
}
