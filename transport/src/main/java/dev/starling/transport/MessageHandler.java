package dev.starling.transport;

import org.agrona.DirectBuffer;

/** Takes messages of peers. Runs inside {@link Transport#doWork}. */
@FunctionalInterface
public interface MessageHandler {
    /** Takes a message; the buffer is valid during the call only. May send, must not wait. */
    void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length);
}
