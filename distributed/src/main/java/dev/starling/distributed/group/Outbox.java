package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import org.agrona.concurrent.UnsafeBuffer;

/** Control messages to one peer, queued in order while the link has no room. */
public final class Outbox {
    private final Endpoint endpoint;
    private final Deque<byte[]> waiting = new ArrayDeque<>();
    private final UnsafeBuffer buffer = new UnsafeBuffer(0, 0);
    private boolean sending;

    public Outbox(Endpoint endpoint) {
        this.endpoint = endpoint;
    }

    public Endpoint endpoint() {
        return endpoint;
    }

    /** Sends a message now, or from {@link #doWork} as soon as the link has room. */
    public void send(Control message) {
        byte[] body = Control.CODEC.encode(message);
        if (body.length <= Pieces.MAX_PIECE) {
            waiting.add(ByteBuffer.allocate(Channels.HEADER + body.length).order(Channels.ORDER)
                    .putInt(Channels.CONTROL).put(body).array());
        } else {
            waiting.addAll(Pieces.of(body));
        }
        doWork();
    }

    public int doWork() {
        // A send may detect that the peer is lost, and the listener of that loss may send through this outbox.
        if (sending) {
            return 0;
        }
        int work = 0;
        sending = true;
        try {
            while (!waiting.isEmpty()) {
                byte[] next = waiting.peek();
                buffer.wrap(next);
                int code = endpoint.send(buffer, 0, next.length);
                if (code == Endpoint.BACK_PRESSURED || code == Endpoint.NOT_CONNECTED) {
                    break;
                }
                waiting.remove();
                work++;
            }
        } finally {
            sending = false;
        }
        return work;
    }

    public boolean isEmpty() {
        return waiting.isEmpty();
    }
}
