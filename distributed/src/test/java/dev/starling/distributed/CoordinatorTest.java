package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;

class CoordinatorTest {
    private static final Duration SOON = Duration.ofSeconds(5);

    private final TransportConfig config = TransportConfig.of("local", Secret.random());
    private final List<Runnable> everybody = new ArrayList<>();

    /** A process that says to the coordinator whatever the test wants. */
    private final class Client implements AutoCloseable {
        private final Transport transport;
        private final Outbox outbox;
        private final Queue<Control> heard = new ArrayDeque<>();

        Client(Coordinator coordinator) {
            transport = Transport.open(config);
            transport.onMessage(this::take);
            outbox = new Outbox(transport.connect(coordinator.address(), new byte[0]));
            everybody.add(() -> {
                transport.doWork();
                outbox.doWork();
            });
            say(new Control.Join(transport.address(), "host", -1));
        }

        private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
            byte[] body = new byte[length - Channels.HEADER];
            buffer.getBytes(offset + Channels.HEADER, body);
            try {
                heard.add(Control.decode(body));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        void say(Control message) {
            outbox.send(Channels.CONTROL, message);
        }

        /** Waits for the next message. */
        Control hear() {
            transport.await(() -> {
                everybody.forEach(Runnable::run);
                return !heard.isEmpty();
            }, SOON, "a word of the coordinator");
            return heard.remove();
        }

        void hearView(long epoch, int world) {
            assertThat(hear()).isInstanceOfSatisfying(Control.NewView.class, m -> {
                assertThat(m.view().epoch()).isEqualTo(epoch);
                assertThat(m.view().world()).isEqualTo(world);
            });
        }

        @Override
        public void close() {
            transport.close();
        }
    }

    @Test
    void shouldNotWaitForAMemberThatHasLeft() {
        try (Coordinator coordinator = Coordinator.open(config, 2, Coordinator.OnLoss.REFORM, 1, SOON);
                Client stays = new Client(coordinator); Client leaves = new Client(coordinator)) {
            everybody.add(coordinator::doWork);
            stays.hearView(1, 2);
            leaves.hearView(1, 2);
            stays.say(new Control.Ready(1));
            leaves.say(new Control.Ready(1));
            assertThat(stays.hear()).isEqualTo(new Control.Start(1));
            assertThat(leaves.hear()).isEqualTo(new Control.Start(1));
            try (Client comes = new Client(coordinator)) {
                comes.hearView(2, 3);
                stays.hearView(2, 3);
                leaves.hearView(2, 3);
                leaves.say(new Control.Leave());
                stays.say(new Control.Ready(2));
                comes.say(new Control.Ready(2));
                stays.hearView(3, 2);
                comes.hearView(3, 2);
                stays.say(new Control.Ready(3));
                comes.say(new Control.Ready(3));
                assertThat(stays.hear()).isEqualTo(new Control.Start(3));
                assertThat(comes.hear()).isEqualTo(new Control.Start(3));
            }
        }
    }
}
