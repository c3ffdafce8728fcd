package dev.starling.distributed.collective;

import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.transport.Endpoint;
import org.agrona.concurrent.UnsafeBuffer;

/** A message that each of the other ranks is sent as soon as its link has room. */
final class MessageToAll {
    private final Fabric fabric;
    private final UnsafeBuffer message;
    private final boolean[] sent;
    private int left;

    MessageToAll(EpochMessages messages, int kind, long sequence, byte[] body) {
        fabric = messages.fabric();
        message = messages.of(kind, sequence, body);
        sent = new boolean[fabric.world()];
        sent[fabric.rank()] = true;
        left = sent.length - 1;
    }

    /** Sends the message to the ranks whose links have room; returns how many these are. */
    int send() {
        int before = left;
        for (int rank = 0; left > 0 && rank < sent.length; rank++) {
            if (!sent[rank]) {
                int code = fabric.endpoint(rank).send(message, 0, message.capacity());
                // A peer that has closed needs no message.
                sent[rank] = code == Endpoint.OK || code == Endpoint.CLOSED;
                left -= sent[rank] ? 1 : 0;
            }
        }
        return before - left;
    }

    boolean isSent() {
        return left == 0;
    }
}
