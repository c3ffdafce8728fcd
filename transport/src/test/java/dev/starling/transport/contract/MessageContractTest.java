package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportException;
import dev.starling.transport.contract.Cluster.Connection;
import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** What every transport does with messages. */
@Timeout(60)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#all")
class MessageContractTest {
    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    /** Numbered messages of all sizes with distinct contents. */
    private static final class Flow {
        private static final int NUMBER = 4;

        private final SplittableRandom sizes;
        private final SplittableRandom expectedSizes;
        private final UnsafeBuffer noise;
        private final UnsafeBuffer out;
        private final int maxLength;
        private int sent;
        private int received;
        private int nextLength;
        private int backPressured;

        Flow(long seed, int maxLength) {
            this.maxLength = maxLength;
            sizes = new SplittableRandom(seed);
            expectedSizes = new SplittableRandom(seed);
            byte[] bytes = new byte[2 * maxLength];
            new SplittableRandom(seed).nextBytes(bytes);
            noise = new UnsafeBuffer(bytes);
            out = new UnsafeBuffer(new byte[maxLength]);
            nextLength = length(sizes, 0);
        }

        private int length(SplittableRandom random, int number) {
            if (number % 500 == 499) {
                return maxLength;
            }
            return NUMBER + (int) Math.exp(random.nextDouble() * Math.log(random.nextInt(20) == 0 ? maxLength - NUMBER
                    : Math.min(4096, maxLength - NUMBER)));
        }

        boolean send(Endpoint to) {
            out.putInt(0, sent);
            out.putBytes(NUMBER, noise, sent % maxLength, nextLength - NUMBER);
            int code = to.send(out, 0, nextLength);
            if (code != Endpoint.OK) {
                assertThat(code).isEqualTo(Endpoint.BACK_PRESSURED);
                backPressured++;
                return false;
            }
            sent++;
            nextLength = length(sizes, sent);
            return true;
        }

        void receive(DirectBuffer buffer, int offset, int length) {
            assertThat(buffer.getInt(offset)).isEqualTo(received);
            assertThat(length).isEqualTo(length(expectedSizes, received));
            UnsafeBuffer body = new UnsafeBuffer(buffer, offset + NUMBER, length - NUMBER);
            assertThat(body.compareTo(new UnsafeBuffer(noise, received % maxLength, length - NUMBER)))
                    .as("contents of message %d", received).isZero();
            received++;
        }
    }

    @Test
    void deliversAllMessagesInOrderThoughTheReceiverIsSlow() {
        int count = 10_000;
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Flow flow = new Flow(1, c.toB().maxMessageLength());
            c.b().transport.onMessage((from, buffer, offset, length) -> {
                assertThat(from).isSameAs(c.toA());
                flow.receive(buffer, offset, length);
            });
            while (flow.sent < count) {
                if (!flow.send(c.toB())) {
                    int target = flow.received + 1;
                    cluster.await(() -> flow.received >= Math.min(target, flow.sent), "a message");
                }
            }
            cluster.await(() -> flow.received == count, "all messages");
            assertThat(flow.backPressured).isPositive();
            assertThat(c.b().transport.counters().refused()).isZero();
        }
    }

    @Test
    void carriesMessagesInBothDirectionsConcurrently() {
        int count = 2_000;
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Flow there = new Flow(2, c.toB().maxMessageLength());
            Flow back = new Flow(3, c.toA().maxMessageLength());
            c.b().transport.onMessage((from, buffer, offset, length) -> there.receive(buffer, offset, length));
            c.a().transport.onMessage((from, buffer, offset, length) -> back.receive(buffer, offset, length));
            cluster.await(() -> {
                boolean sent = there.sent < count && there.send(c.toB());
                sent |= back.sent < count && back.send(c.toA());
                return there.received == count && back.received == count;
            }, "all messages");
        }
    }

    @Test
    void answersFromTheHandler() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            UnsafeBuffer number = new UnsafeBuffer(new byte[4]);
            int[] rounds = new int[1];
            c.b().transport.onMessage((from, buffer, offset, length) -> {
                number.putInt(0, buffer.getInt(offset) + 1);
                assertThat(from.send(number, 0, 4)).isEqualTo(Endpoint.OK);
            });
            c.a().transport.onMessage((from, buffer, offset, length) -> {
                rounds[0] = buffer.getInt(offset);
                number.putInt(0, rounds[0]);
                assertThat(from.send(number, 0, 4)).isEqualTo(Endpoint.OK);
            });
            assertThat(c.toB().send(number, 0, 4)).isEqualTo(Endpoint.OK);
            cluster.await(() -> rounds[0] >= 1000, "1000 answers");
        }
    }

    @Test
    void refusesToSendAMessageThatIsTooLongOrHasANegativeLength() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Transport transport = c.a().transport;
            UnsafeBuffer message = new UnsafeBuffer(new byte[transport.maxMessageLength() + 1]);
            assertThatThrownBy(() -> c.toB().send(message, 0, message.capacity()))
                    .isInstanceOf(TransportException.class)
                    .hasMessageContaining(Integer.toString(transport.maxMessageLength()));
            assertThatThrownBy(() -> c.toB().send(message, 0, -1)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("got -1");
            assertThat(c.toB().isConnected()).isTrue();
            assertThat(transport.maxMessageLength()).isGreaterThanOrEqualTo((32 << 10) - 72);
        }
    }

    @Test
    void carriesMessagesAfterOneThatLiesOutsideOfItsBuffer() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            String text = "word ".repeat(10);
            UnsafeBuffer message = new UnsafeBuffer(text.getBytes(StandardCharsets.US_ASCII));
            for (int offset : new int[] {-1, 1, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
                assertThatThrownBy(() -> c.toB().send(message, offset, text.length()))
                        .isInstanceOf(IndexOutOfBoundsException.class);
            }
            assertThat(c.toB().send(message, 0, text.length())).isEqualTo(Endpoint.OK);
            cluster.await(() -> !c.b().messages.isEmpty(), "a message");
            assertThat(c.b().messages).containsExactly(text);
        }
    }

    @Test
    void carriesEmptyMessages() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            assertThat(c.toB().send(new UnsafeBuffer(new byte[0]), 0, 0)).isEqualTo(Endpoint.OK);
            cluster.await(() -> !c.b().messages.isEmpty(), "a message");
            assertThat(c.b().messages).containsExactly("");
        }
    }
}
