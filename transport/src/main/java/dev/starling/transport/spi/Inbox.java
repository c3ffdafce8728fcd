package dev.starling.transport.spi;

import org.agrona.DirectBuffer;

/** Takes messages that a wire received. */
@FunctionalInterface
public interface Inbox {
    /** Takes a message, which may be anything at all; the buffer is valid during the call only. */
    void onMessage(DirectBuffer buffer, int offset, int length);
}
