package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LocalTransportTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    /** More than one turn sends, so that a part remains to be sent. */
    private static final int LONG_PUT = 1 << 20;

    @Test
    void connectsSendsAndPuts() {
        Secret secret = Secret.random();
        for (boolean shared : new boolean[] {true, false}) {
            TransportConfig config = TransportConfig.of("local", secret).sharedMemory(shared);
            try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
                List<Endpoint> accepted = new ArrayList<>();
                List<String> received = new ArrayList<>();
                List<Long> notified = new ArrayList<>();
                b.onConnection(new ConnectionHandler() {
                    @Override
                    public void onAccepted(Endpoint endpoint) {
                        accepted.add(endpoint);
                    }
                });
                b.onMessage((from, buffer, offset, length) -> received.add(buffer.getStringWithoutLengthAscii(offset,
                        length)));
                b.onPut((from, immediate) -> notified.add(immediate));
                Endpoint toB = a.connect(b.address(), "hello".getBytes(StandardCharsets.US_ASCII));
                both(a, b, () -> toB.isConnected() && accepted.size() == 1);
                assertThat(new String(accepted.getFirst().greeting(), StandardCharsets.US_ASCII)).isEqualTo("hello");

                UnsafeBuffer message = new UnsafeBuffer("first".getBytes(StandardCharsets.US_ASCII));
                assertThat(toB.send(message, 0, 5)).isEqualTo(Endpoint.OK);
                both(a, b, () -> received.size() == 1);
                assertThat(received).containsExactly("first");

                int bytes = 3 << 20;
                MemoryRegion source = a.register(bytes);
                MemoryRegion target = b.register(bytes);
                for (int i = 0; i < bytes / 4; i++) {
                    source.memory().setAtIndex(ValueLayout.JAVA_INT, i, i * 7);
                }
                RemoteRegion remote = toB.open(RegionKey.decode(target.key().encode()));
                assertThat(remote.memory() != null).isEqualTo(shared);
                boolean[] done = new boolean[1];
                assertThat(toB.putAndNotify(source, 0, remote, 0, bytes, 42, ok -> done[0] = ok))
                        .isEqualTo(Endpoint.OK);
                both(a, b, () -> done[0] && notified.size() == 1);
                assertThat(notified).containsExactly(42L);
                assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
                remote.close();
            }
        }
    }

    @Test
    void completesAPutIntoMappedMemoryAfterThoseBefore() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            Endpoint toB = a.connect(b.address(), new byte[0]);
            both(a, b, toB::isConnected);
            MemoryRegion source = a.register(1000);
            RegionKey key = b.register(1000).key();
            RemoteRegion sent = toB.open(key, false);
            RemoteRegion mapped = toB.open(key);
            assertThat(mapped.memory()).isNotNull();
            List<String> arrived = new ArrayList<>();
            assertThat(toB.put(source, 0, sent, 0, 1000, _ -> arrived.add("sent"))).isEqualTo(Endpoint.OK);
            assertThat(toB.put(source, 0, mapped, 0, 1000, _ -> arrived.add("mapped"))).isEqualTo(Endpoint.OK);
            assertThat(arrived).isEmpty();
            both(a, b, () -> arrived.size() == 2);
            assertThat(arrived).containsExactly("sent", "mapped");
            assertThat(toB.put(source, 0, mapped, 0, 1000, _ -> arrived.add("at once"))).isEqualTo(Endpoint.OK);
            assertThat(arrived).endsWith("at once");
            mapped.close();
        }
    }

    @Test
    void closesItsWireAndItsMemoryIfACompletionThrows() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport b = Transport.open(config)) {
            Transport a = Transport.open(config.at("127.0.0.1", 4712));
            Endpoint toB = a.connect(b.address(), new byte[0]);
            both(a, b, toB::isConnected);
            MemoryRegion source = a.register(8);
            assertThat(toB.put(source, 0, toB.open(b.register(8).key(), false), 0, 8, _ -> {
                throw new IllegalStateException("thrown by a completion");
            })).isEqualTo(Endpoint.OK);
            assertThatThrownBy(a::close).isInstanceOf(IllegalStateException.class)
                    .hasMessage("thrown by a completion");
            assertThat(source.memory().scope().isAlive()).isFalse();
            Transport.open(config.at("127.0.0.1", 4712)).close();
        }
    }

    private static Endpoint connect(Transport a, Transport b) {
        Endpoint endpoint = a.connect(b.address(), new byte[0]);
        both(a, b, endpoint::isConnected);
        return endpoint;
    }

    /** Notes that a put has ended, and throws an exception. */
    private static Completion throwing(int number, List<Integer> ended) {
        return _ -> {
            ended.add(number);
            throw new IllegalStateException("thrown by completion " + number);
        };
    }

    @Test
    void endsEachPutAndFreesTheMemoryIfSeveralCompletionsThrow() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport b = Transport.open(config)) {
            Transport a = Transport.open(config);
            List<Endpoint> toB = List.of(connect(a, b), connect(a, b));
            List<MemoryRegion> sources = List.of(a.register(LONG_PUT), a.register(LONG_PUT));
            RegionKey key = b.register(LONG_PUT).key();
            List<Integer> ended = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Endpoint endpoint = toB.get(i % 2);
                assertThat(endpoint.put(sources.get(i / 2), 0, endpoint.open(key, false), 0, LONG_PUT,
                        throwing(i, ended))).isEqualTo(Endpoint.OK);
            }
            assertThatThrownBy(a::close).isInstanceOf(IllegalStateException.class)
                    .hasMessage("thrown by completion 0");
            assertThat(ended).containsExactly(0, 2, 1, 3);
            assertThat(sources).noneMatch(source -> source.memory().scope().isAlive());
        }
    }

    @Test
    void freesTheMemoryOfARegionIfCompletionsThrow() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            Endpoint toB = connect(a, b);
            MemoryRegion source = a.register(LONG_PUT);
            MemoryRegion other = a.register(8);
            RemoteRegion target = toB.open(b.register(LONG_PUT).key(), false);
            List<Integer> ended = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                assertThat(toB.put(source, 0, target, 0, LONG_PUT, throwing(i, ended))).isEqualTo(Endpoint.OK);
            }
            assertThatThrownBy(source::close).isInstanceOf(IllegalStateException.class)
                    .hasMessage("thrown by completion 0");
            assertThat(ended).containsExactly(0, 1);
            assertThat(source.memory().scope().isAlive()).isFalse();
            boolean[] done = new boolean[1];
            assertThat(toB.put(other, 0, target, 0, 8, arrived -> done[0] = arrived)).isEqualTo(Endpoint.OK);
            both(a, b, () -> done[0]);
        }
    }

    @Test
    void completesThePutsBehindOneWhoseCompletionThrows() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            Endpoint toB = connect(a, b);
            MemoryRegion source = a.register(8);
            RemoteRegion target = toB.open(b.register(8).key(), false);
            List<Integer> ended = new ArrayList<>();
            boolean[] done = new boolean[1];
            assertThat(toB.put(source, 0, target, 0, 8, throwing(0, ended))).isEqualTo(Endpoint.OK);
            assertThat(toB.put(source, 0, target, 0, 8, arrived -> done[0] = arrived)).isEqualTo(Endpoint.OK);
            b.doWork(); // Both arrive, and are acknowledged together.
            assertThatThrownBy(() -> both(a, b, () -> done[0])).hasMessage("thrown by completion 0");
            both(a, b, () -> done[0]);
            assertThat(ended).containsExactly(0);
        }
    }

    @Test
    void reportsALostPeerAlsoIfACompletionThrows() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            List<Endpoint> lost = new ArrayList<>();
            a.onConnection(new ConnectionHandler() {
                @Override
                public void onLost(Endpoint endpoint) {
                    lost.add(endpoint);
                }
            });
            Endpoint toB = connect(a, b);
            MemoryRegion source = a.register(LONG_PUT);
            RemoteRegion target = toB.open(b.register(LONG_PUT).key(), false);
            assertThat(toB.put(source, 0, target, 0, LONG_PUT, throwing(0, new ArrayList<>()))).isEqualTo(Endpoint.OK);
            b.close();
            assertThatThrownBy(() -> a.await(() -> !lost.isEmpty(), TIMEOUT, "the loss"))
                    .hasMessage("thrown by completion 0");
            assertThat(lost).containsExactly(toB);
            assertThat(a.counters().lostPeers()).isOne();
        }
    }

    @Test
    void waitsForAsLongAsADurationCanBe() {
        try (Transport transport = Transport.open(TransportConfig.of("local", Secret.random()))) {
            int[] polls = new int[1];
            transport.await(() -> polls[0]++ == 3, Duration.ofSeconds(Long.MAX_VALUE), "the third poll");
            assertThat(polls[0]).isEqualTo(4);
        }
    }

    /** A wire by a clock that the test sets. */
    private static final class ClockedWire extends ForwardingWire {
        private final long[] now;

        ClockedWire(Wire wire, long[] now) {
            super(wire);
            this.now = now;
        }

        @Override
        public NanoClock clock() {
            return () -> now[0];
        }
    }

    private static Transport clocked(TransportConfig config, long[] now) {
        return Transport.over(new ClockedWire(Transport.providers().get("local").open(config.wire()), now), config);
    }

    @Test
    void connectsAndStaysConnectedWhenTheNumbersOfTheClockBeginAgain() {
        long millisecond = 1_000_000;
        long[] now = {Long.MAX_VALUE - 3 * millisecond / 2};
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMillis(100));
        try (Transport a = clocked(config, now)) {
            Endpoint toB = a.connect("port-4713", new byte[0]);
            a.doWork(); // The next attempt is due in a millisecond.
            now[0] += 2 * millisecond;
            assertThat(now[0]).isNegative();
            try (Transport b = clocked(config.at("127.0.0.1", 4713), now)) {
                for (int i = 0; i < 500; i++) {
                    now[0] += millisecond;
                    a.doWork();
                    b.doWork();
                }
                assertThat(toB.state()).as(toB.reason()).isEqualTo(Endpoint.State.CONNECTED);
            }
        }
    }

    private static Endpoint connect(Transport a, Transport b, long[] now) {
        Endpoint endpoint = a.connect(b.address(), new byte[0]);
        workFor300Ms(a, b, now);
        assertThat(endpoint.isConnected()).isTrue();
        return endpoint;
    }

    private static void workFor300Ms(Transport a, Transport b, long[] now) {
        for (int i = 0; i < 300; i++) {
            now[0] += 1_000_000;
            a.doWork();
            b.doWork();
        }
    }

    /** As those of a container do that is paused. One of them resumes first. */
    @Test
    void staysConnectedIfAllProcessesWereStopped() {
        long[] now = {0};
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMillis(100));
        try (Transport a = clocked(config, now); Transport b = clocked(config, now)) {
            Endpoint toB = connect(a, b, now);
            for (int stop = 0; stop < 5; stop++) {
                now[0] += 10_000_000_000L;
                for (int i = 0; i < 20; i++) {
                    now[0] += 1_000_000;
                    a.doWork();
                }
                workFor300Ms(a, b, now);
                assertThat(toB.state()).as(toB.reason()).isEqualTo(Endpoint.State.CONNECTED);
                assertThat(a.counters().lostPeers() + b.counters().lostPeers()).isZero();
            }
        }
    }

    @Test
    void losesASilentPeerAlsoIfItWorksSeldom() {
        long[] now = {0};
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMillis(100));
        try (Transport a = clocked(config, now); Transport b = clocked(config, now)) {
            Endpoint toB = connect(a, b, now);
            for (int i = 0; i < 6; i++) {
                now[0] += 10_000_000_000L;
                a.doWork();
            }
            assertThat(toB.state()).isEqualTo(Endpoint.State.LOST);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"local", "tcp"})
    void sleepsWhileAnInterruptedCallerWaits(String wire) {
        try (Transport transport = Transport.open(TransportConfig.of(wire, Secret.random()))) {
            int undisturbed = polls(transport);
            Thread.currentThread().interrupt();
            int interrupted = polls(transport);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
            assertThat(interrupted).isLessThan(10 * undisturbed + 1000);
        } finally {
            Thread.interrupted();
        }
    }

    /** Returns how often a transport asks within a wait that ends at its deadline. */
    private static int polls(Transport transport) {
        int[] polls = new int[1];
        assertThatThrownBy(() -> transport.await(() -> polls[0]++ < 0, Duration.ofMillis(200), "nothing"))
                .isInstanceOf(TransportException.class).hasMessageContaining("nothing");
        return polls[0];
    }

    @Test
    void sendsNothingOverAClosedLink() {
        UnsafeBuffer message = new UnsafeBuffer(new byte[8]);
        try (Wire wire = Transport.providers().get("local").open(TransportConfig.of("local", Secret.random()).wire())) {
            Link link = wire.open("a thread that does not exist");
            assertThat(link.offer(message, 0, 8, null, 0, 0)).isEqualTo(Wire.NOT_CONNECTED);
            link.close();
            assertThat(link.offer(message, 0, 8, null, 0, 0)).isEqualTo(Wire.CLOSED);
        }
    }

    @Test
    void notifiesALostPeerOfTheReason() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(1));
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            List<Endpoint> accepted = new ArrayList<>();
            b.onConnection(new ConnectionHandler() {
                @Override
                public void onAccepted(Endpoint endpoint) {
                    accepted.add(endpoint);
                }
            });
            Endpoint toB = a.connect(b.address(), new byte[0]);
            both(a, b, () -> toB.isConnected() && accepted.size() == 1);
            Endpoint toA = accepted.getFirst();

            b.await(() -> toA.state() == Endpoint.State.LOST, TIMEOUT, "the loss of an idle peer");
            assertThat(toA.reason()).startsWith("received nothing from " + a.address());
            // The lost peer does not know yet, and continues.
            for (int i = 0; i < 3; i++) {
                assertThat(toB.send(new UnsafeBuffer(new byte[8]), 0, 8)).isEqualTo(Endpoint.OK);
            }
            b.await(() -> b.counters().refusedReplays() == 3, TIMEOUT, "the refusal of late messages");
            a.await(() -> toB.state() == Endpoint.State.LOST, TIMEOUT, "the goodbye");
            assertThat(toB.reason()).startsWith(b.address() + " ended the connection: received nothing for ");
        }
    }

    private static void both(Transport a, Transport b, java.util.function.BooleanSupplier condition) {
        a.await(() -> b.doWork() >= 0 && condition.getAsBoolean(), TIMEOUT, "both");
    }
}
