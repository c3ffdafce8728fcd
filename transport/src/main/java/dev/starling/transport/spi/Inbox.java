package dev.starling.transport.spi;

import org.agrona.DirectBuffer;

/** Receives the messages of a wire. */
@FunctionalInterface
public interface Inbox {
    /** Receives a message, which may be any bytes; the buffer is valid during the call only. */
    void onMessage(DirectBuffer buffer, int offset, int length);
}
