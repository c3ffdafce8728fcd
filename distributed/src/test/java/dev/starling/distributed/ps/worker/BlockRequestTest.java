package dev.starling.distributed.ps.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.group.Channels;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class BlockRequestTest {
    private final UnsafeBuffer weights = new UnsafeBuffer(new byte[8]);
    private final UnsafeBuffer slot = new UnsafeBuffer(new byte[8]);
    private final List<UnsafeBuffer> received = new ArrayList<>();

    /** A reply to a pull, as a server sends it. */
    private static UnsafeBuffer reply(UnsafeBuffer request, float first, float second) {
        UnsafeBuffer reply = new UnsafeBuffer(new byte[Message.REPLY_HEADER + 8]);
        int at = Channels.HEADER;
        reply.putInt(Message.STATUS, Message.DONE, Message.ORDER);
        reply.putInt(Message.REPLY_KIND, request.getInt(at + Message.KIND, Message.ORDER), Message.ORDER);
        reply.putLong(Message.REPLY_SESSION, request.getLong(at + Message.SESSION, Message.ORDER), Message.ORDER);
        reply.putLong(Message.REPLY_SEQUENCE, request.getLong(at + Message.SEQUENCE, Message.ORDER), Message.ORDER);
        reply.putFloat(Message.REPLY_HEADER, first, Message.ORDER);
        reply.putFloat(Message.REPLY_HEADER + 4, second, Message.ORDER);
        return reply;
    }

    private static boolean answer(BlockRequest request, UnsafeBuffer reply) {
        return request.onReply(reply, 0, reply.capacity());
    }

    private static float[] floats(UnsafeBuffer buffer) {
        return new float[] {buffer.getFloat(0, Message.ORDER), buffer.getFloat(4, Message.ORDER)};
    }

    /** After a new connection, a pull is repeated and has two replies; the second arrives when a slot is awaited. */
    @Test
    void theRepeatedReplyOfAnEarlierPullDoesNotFillASlot() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport worker = Transport.open(config); Transport server = Transport.open(config)) {
            server.onMessage((from, buffer, offset, length) -> {
                byte[] bytes = new byte[length];
                buffer.getBytes(offset, bytes);
                received.add(new UnsafeBuffer(bytes));
            });
            ServerLink link = new ServerLink(0, 0, new byte[1], () -> 0);
            BlockRequest request = new BlockRequest(link, 0, new Plan.Block(0, 0, 2), weights, new Random(1));
            request.kept = new UnsafeBuffer[] {slot};
            link.units.add(request);
            request.ask(Message.PULL);
            for (int connections = 1; connections <= 2; connections++) {
                Endpoint endpoint = worker.connect(server.address(), new byte[0]);
                while (!endpoint.isConnected()) {
                    worker.doWork();
                    server.doWork();
                }
                link.connect(endpoint);
                link.onWelcome();
                send(link, server, connections);
            }
            assertThat(answer(request, reply(received.get(0), 1, 2))).isTrue();
            assertThat(floats(weights)).containsExactly(1, 2);

            request.which = 1;
            request.ask(Message.PULL);
            send(link, server, 3);
            assertThat(answer(request, reply(received.get(1), 1, 2))).isFalse();
            assertThat(floats(slot)).containsExactly(0, 0);
            assertThat(answer(request, reply(received.get(2), 3, 4))).isTrue();
            assertThat(floats(slot)).containsExactly(3, 4);
            assertThat(floats(weights)).containsExactly(1, 2);
        }
    }

    private void send(ServerLink link, Transport server, int messages) {
        link.pump();
        while (received.size() < messages) {
            server.doWork();
        }
    }
}
