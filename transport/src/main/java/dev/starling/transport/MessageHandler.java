package dev.starling.transport;

import org.agrona.DirectBuffer;

/** Receives messages of peers. Runs inside {@link Transport#doWork}. */
@FunctionalInterface
public interface MessageHandler {
    /** Receives a message. The buffer is valid during the call only. The handler may send but must not wait. */
    void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length);
}
