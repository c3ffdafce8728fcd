package dev.starling.transport.spi;

import static dev.starling.transport.spi.Wires.HEADER;
import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.drive;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.contract.FreePort;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What every wire of a network does, with each set of options. */
@Timeout(60)
@ParameterizedClass
@MethodSource("wires")
class WireContractTest {
    @Parameter
    private WireOptions way;

    @TempDir
    private Path directory;

    /** A wire with some options. */
    record WireOptions(String provider, Map<String, String> options) { }

    /** On a busy machine datagrams may take longer than the default linger time. */
    static Stream<WireOptions> wires() {
        return Stream.of(new WireOptions("aeron", Map.of("ipc", "true")),
                new WireOptions("aeron", Map.of("ipc", "false", "linger", "10000")),
                new WireOptions("aeron", Map.of("ipc", "false", "mtu", "1408", "linger", "10000")),
                new WireOptions("tcp", Map.of()),
                new WireOptions("tcp", Map.of("sendBuffer", "256k", "receiveBuffer", "256k")),
                new WireOptions("ucx", Map.of("tls", "tcp")),
                new WireOptions("ucx", Map.of("tls", "sm,self")), new WireOptions("ucx", Map.of("tls", "all")));
    }

    @BeforeEach
    void check() {
        assumeTrue(Transport.providers().get(way.provider).availability() instanceof WireProvider.Availability.Ready,
                way.provider + " cannot be used here");
    }

    private TransportConfig config() {
        TransportConfig config = TransportConfig.of(way.provider, Secret.ofText("sixteen bytes or more"))
                .directory(directory);
        for (Map.Entry<String, String> option : way.options.entrySet()) {
            config = config.option(option.getKey(), option.getValue());
        }
        return config;
    }

    private Wire open() {
        return open(config());
    }

    private Wire open(TransportConfig config) {
        return Transport.providers().get(way.provider).open(config.wire());
    }

    private TransportException failure(TransportConfig config) {
        return catchThrowableOfType(TransportException.class, () -> open(config).close());
    }

    @Test
    void deliversBodiesThatAreSentInPlaceAndThenReleasesThem() {
        try (Wire from = open(); Wire to = open(); Arena arena = Arena.ofShared()) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            int bytes = Math.min(300_001, from.maxMessageLength() - HEADER);
            byte[] random = new byte[bytes];
            new Random(6).nextBytes(random);
            MemorySegment memory = arena.allocate(bytes);
            memory.copyFrom(MemorySegment.ofArray(random));
            UnsafeBuffer body = new UnsafeBuffer(memory.address(), bytes);
            UnsafeBuffer header = new UnsafeBuffer(new byte[HEADER]);
            int count = 30;
            int[] sent = {0};
            int[] released = {0};
            int[] received = {0};
            await(() -> {
                header.putLong(0, 1 + sent[0]);
                if (sent[0] < count && link.offerInPlace(header, 0, HEADER, body, 0, bytes, () -> released[0]++)
                        == Wire.SENT) {
                    sent[0]++;
                }
                to.poll((buffer, offset, length) -> {
                    to.onProof();
                    if (length == HEADER + bytes) {
                        byte[] arrived = new byte[bytes];
                        buffer.getBytes(offset + HEADER, arrived);
                        assertThat(buffer.getLong(offset)).isEqualTo(++received[0]);
                        assertThat(arrived).isEqualTo(random);
                    }
                }, 4);
                return received[0] == count && released[0] == count;
            }, from);
        }
    }

    @Test
    void messagesThatWereHeldArriveAfterAsManyFlushes() {
        try (Wire from = open(); Wire to = open()) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            link.hold();
            link.hold();
            for (int i = 0; i < 3; i++) {
                assertThat(offer(link, new byte[100 + i])).isEqualTo(Wire.SENT);
            }
            link.flush();
            link.flush();
            int[] received = {0};
            await(() -> {
                to.poll((buffer, offset, length) -> {
                    to.onProof();
                    if (length > HEADER + 4) {
                        assertThat(length).isEqualTo(HEADER + 100 + received[0]++);
                    }
                }, 4);
                return received[0] == 3;
            }, from.sendsImmediately() ? new Wire[0] : new Wire[] {from});
        }
    }

    /** Returns a message of a size from 0 to the maximum, with distinct contents. */
    private static byte[] message(int index, int maxLength) {
        int[] sizes = {0, 1, 31, maxLength - HEADER, 1000, 8192 - 24, 8193, 32 << 10, 65_472 - 8, 65_473 - 8, 3,
            200_000, 262_120, maxLength - HEADER - 1, 1};
        byte[] body = new byte[Math.min(maxLength - HEADER, sizes[index % sizes.length])];
        new Random(index).nextBytes(body);
        return body;
    }

    @Test
    void carriesMessagesOfAllSizesInOrder() {
        try (Wire from = open(); Wire to = open()) {
            Link link = from.open(to.address());
            int count = 200;
            int[] received = {0};
            Inbox check = (buffer, offset, length) -> {
                byte[] body = new byte[length - HEADER];
                buffer.getBytes(offset + HEADER, body);
                assertThat(body).isEqualTo(message(received[0], from.maxMessageLength()));
                received[0]++;
                to.onProof();
            };
            int[] sent = {0};
            await(() -> {
                while (sent[0] < count && offer(link, message(sent[0], from.maxMessageLength())) == Wire.SENT) {
                    sent[0]++;
                }
                to.poll(check, 3);
                return received[0] == count;
            }, from);
        }
    }

    @Test
    void deliversNoMoreThanTheLimit() {
        try (Wire from = open(); Wire to = open()) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            for (int i = 1; i < 100; i++) {
                int index = i;
                await(() -> offer(link, new byte[] {(byte) index}) == Wire.SENT, from);
            }
            int[] received = {0};
            await(() -> {
                int before = received[0];
                to.poll((buffer, offset, length) -> {
                    if (length == HEADER + 1) {
                        assertThat(buffer.getByte(offset + HEADER)).isEqualTo((byte) ++received[0]);
                    }
                }, 2);
                assertThat(received[0] - before).isLessThanOrEqualTo(2);
                return received[0] == 99;
            }, from);
        }
    }

    @Test
    void appliesBackPressureAndLosesNothing() {
        try (Wire from = open(); Wire to = open()) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            byte[] body = new byte[10_000];
            int sent = 0;
            int code;
            while ((code = offer(link, body)) == Wire.SENT) {
                sent++;
                drive(from);
            }
            assertThat(code).isEqualTo(Wire.BACK_PRESSURED);
            assertThat(sent).as("messages in flight").isBetween(50, 5000);
            int expected = sent + 1;
            int[] received = {0};
            boolean[] last = {false};
            await(() -> {
                last[0] = last[0] || offer(link, body) == Wire.SENT;
                to.poll((buffer, offset, length) -> {
                    to.onProof();
                    received[0] += length == body.length + HEADER ? 1 : 0;
                }, 16);
                return last[0] && received[0] == expected;
            }, from);
        }
    }

    @Test
    void deliversMessagesSentBeforeClosing() throws InterruptedException {
        try (Wire to = open()) {
            int count = 150;
            Thread sender = Thread.ofPlatform().start(() -> {
                try (Wire from = open()) {
                    Link link = from.open(to.address());
                    int[] sent = {0};
                    await(() -> {
                        if (offer(link, new byte[10_000]) == Wire.SENT) {
                            sent[0]++;
                        }
                        return sent[0] == count;
                    }, from);
                }
            });
            int[] received = {0};
            await(() -> {
                to.poll((buffer, offset, length) -> {
                    to.onProof();
                    received[0]++;
                }, 16);
                return received[0] == count;
            });
            sender.join();
        }
    }

    @Test
    void reachesItself() {
        try (Wire wire = open()) {
            Link link = wire.open(wire.address());
            int[] received = {0};
            boolean[] sent = {false};
            await(() -> {
                sent[0] = sent[0] || offer(link, new byte[4]) == Wire.SENT;
                wire.poll((buffer, offset, length) -> received[0]++, 4);
                return received[0] == 1;
            });
        }
    }

    @Test
    void reportsThatThePeerIsGone() {
        try (Wire from = open(); Wire other = open()) {
            Wire to = open();
            Link link = from.open(to.address());
            Link lasting = from.open(other.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, other);
            to.close();
            await(() -> offer(link, new byte[4]) == Wire.CLOSED, from, other);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, other);
            assertThat(offer(link, new byte[4])).isEqualTo(Wire.CLOSED);
            link.close();
            try (Link again = from.open(to.address())) {
                drive(from);
                assertThat(offer(again, new byte[4])).isEqualTo(Wire.NOT_CONNECTED);
            }
        }
    }

    @Test
    void waitsForAPeerThatStartsLater() {
        int port = FreePort.find();
        try (Wire from = open()) {
            Link link = from.open("127.0.0.1:" + port);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(100);
            await(() -> {
                assertThat(offer(link, new byte[4])).isEqualTo(Wire.NOT_CONNECTED);
                return System.nanoTime() > until;
            }, from);
            try (Wire to = open(config().at("127.0.0.1", port))) {
                assertThat(to.address()).isEqualTo("127.0.0.1:" + port);
                await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            }
        }
    }

    @Test
    void reportsThatThePortIsInUse() {
        try (Wire first = open()) {
            int port = Integer.parseInt(first.address().substring(first.address().indexOf(':') + 1));
            TransportException e = failure(config().at("127.0.0.1", port));
            assertThat(e.problem()).isEqualTo(Problem.IN_USE);
            assertThat(e).hasMessageContaining("port " + port).hasMessageContaining("0 for any");
        }
    }

    @Test
    void reportsAnAddressThatIsNotOfThisMachine() {
        assertThat(failure(config().at("192.0.2.1", 0))).hasMessageContaining("192.0.2.1");
    }

    @ParameterizedTest
    @ValueSource(strings = {"nonsense", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:65536", "no host at all:80"})
    void refusesMalformedAddresses(String address) {
        try (Wire wire = open()) {
            assertThatThrownBy(() -> wire.open(address)).isInstanceOf(TransportException.class);
        }
    }

    @Test
    void refusesMessagesThatAreTooLong() {
        try (Wire wire = open(); Wire to = open()) {
            Link link = wire.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, wire, to);
            assertThatThrownBy(() -> offer(link, new byte[wire.maxMessageLength()]))
                    .isInstanceOf(TransportException.class).hasMessageContaining("at most " + wire.maxMessageLength());
        }
    }
}
