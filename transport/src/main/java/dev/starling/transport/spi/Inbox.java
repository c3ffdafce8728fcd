package dev.starling.transport.spi;

import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** Receives the messages of a wire. */
@FunctionalInterface
public interface Inbox {
    /** Receives a message, which may be any bytes; the buffer is valid during the call only. */
    void onMessage(DirectBuffer buffer, int offset, int length);

    /**
     * Returns where the wire may write the body of a message whose header has arrived, before all of the body has; or
     * {@code null} if the wire has to keep it. The wire then calls {@link #onParts} with the body in that place, or
     * abandons the place.
     */
    default @Nullable Place place(DirectBuffer header, int headerOffset, int headerLength, int bodyLength) {
        return null;
    }

    /** Memory into which a wire receives the body of a message. */
    interface Place {
        /** Returns the address of the first byte. */
        long address();

        /** Ends the use of the memory although the message has not arrived. */
        void abandon();
    }

    /** Receives a message that arrived in two parts; joins them, unless it is overridden. */
    default void onParts(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        UnsafeBuffer whole = new UnsafeBuffer(new byte[headerLength + bodyLength]);
        whole.putBytes(0, header, headerOffset, headerLength);
        whole.putBytes(headerLength, body, bodyOffset, bodyLength);
        onMessage(whole, 0, whole.capacity());
    }
}
