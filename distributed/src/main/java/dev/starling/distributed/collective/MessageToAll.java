package dev.starling.distributed.collective;

import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.transport.Endpoint;
import org.agrona.concurrent.UnsafeBuffer;

/** A message that each partner, in a small group all other ranks, is sent as soon as its link has room. */
final class MessageToAll {
    private final Fabric fabric;
    private final UnsafeBuffer message;
    private final boolean[] sent;
    private int left;

    MessageToAll(EpochMessages messages, int kind, long sequence, byte[] body) {
        fabric = messages.fabric();
        message = messages.of(kind, sequence, body);
        sent = new boolean[fabric.partners().length];
        left = sent.length;
    }

    /** Sends the message to the ranks whose links have room; returns how many these are. */
    int send() {
        int before = left;
        for (int i = 0; left > 0 && i < sent.length; i++) {
            Endpoint endpoint = sent[i] ? null : fabric.endpoint(fabric.partners()[i]);
            if (endpoint != null) {
                int code = endpoint.send(message, 0, message.capacity());
                // A peer that has closed needs no message.
                sent[i] = code == Endpoint.OK || code == Endpoint.CLOSED;
                left -= sent[i] ? 1 : 0;
            }
        }
        return before - left;
    }

    boolean isSent() {
        return left == 0;
    }
}
