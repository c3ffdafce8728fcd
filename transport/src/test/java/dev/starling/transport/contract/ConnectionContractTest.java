package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportException;
import dev.starling.transport.contract.Cluster.Connection;
import dev.starling.transport.contract.Cluster.Member;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** What every transport does when peers connect and disconnect; see also {@link SilentPeersTest}. */
@Timeout(60)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#ways")
class ConnectionContractTest {
    private static final UnsafeBuffer WORD = new UnsafeBuffer("word".getBytes(StandardCharsets.US_ASCII));

    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    @Test
    void connectsAndGreets() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            assertThat(new String(c.toA().greeting(), StandardCharsets.US_ASCII)).isEqualTo("a greeting");
            assertThat(c.toB().address()).isEqualTo(c.b().transport.address());
            assertThat(c.toA().address()).isEqualTo(c.a().transport.address());
            assertThat(c.toB().state()).isEqualTo(Endpoint.State.CONNECTED);
            assertThat(c.toB().reason()).isEmpty();
            assertThat(c.b().accepted).hasSize(1);
            assertThat(c.a().accepted).isEmpty();
            assertThat(c.a().transport.counters().refused() + c.b().transport.counters().refused()).isZero();
        }
    }

    @Test
    void acceptsGreetingsUpToAMaximumLength() {
        try (Cluster cluster = new Cluster(setting)) {
            Member a = cluster.member();
            Member b = cluster.member();
            byte[] greeting = new byte[4096];
            greeting[4095] = 42;
            a.transport.connect(b.transport.address(), greeting);
            cluster.await(() -> b.accepted.size() == 1, "the greeting");
            assertThat(b.accepted.getFirst().greeting()).isEqualTo(greeting);
            assertThatThrownBy(() -> a.transport.connect(b.transport.address(), new byte[4097]))
                    .isInstanceOf(TransportException.class).hasMessageContaining("4096").hasMessageContaining("4097");
        }
    }

    @Test
    void connectsOnceThePeerIsThere() {
        try (Cluster cluster = new Cluster(setting)) {
            Member a = cluster.member();
            Member first = cluster.member(c -> c.at("127.0.0.1", FreePort.find()));
            String address = first.transport.address();
            int port = Integer.parseInt(address.replaceAll(".*\\D", ""));
            first.close();
            Endpoint toB = a.transport.connect(address, new byte[0]);
            cluster.work(Duration.ofMillis(100));
            assertThat(toB.state()).isEqualTo(Endpoint.State.CONNECTING);
            assertThat(toB.send(WORD, 0, 4)).isEqualTo(Endpoint.NOT_CONNECTED);
            Member b = cluster.member(c -> c.at("127.0.0.1", port));
            assertThat(b.transport.address()).isEqualTo(address);
            cluster.await(() -> toB.isConnected() && b.accepted.size() == 1, "the late peer");
        }
    }

    @Test
    void connectsWhileTheCallerIsInterrupted() {
        try (Cluster cluster = new Cluster(setting)) {
            Member a = cluster.member();
            Member b = cluster.member();
            Thread.currentThread().interrupt();
            cluster.connect(a, b);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void keepsManyEndpointsApart() {
        int count = 12;
        try (Cluster cluster = new Cluster(setting)) {
            Member hub = cluster.member();
            List<Member> others = List.of(cluster.member(), cluster.member());
            List<Connection> connections = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                connections.add(cluster.connect(others.get(i % 2), hub));
            }
            List<Endpoint> senders = new ArrayList<>();
            hub.transport.onMessage((from, buffer, offset, length) -> {
                senders.add(from);
                assertThat(from.send(buffer, offset, length)).isEqualTo(Endpoint.OK);
            });
            UnsafeBuffer number = new UnsafeBuffer(new byte[4]);
            int[] answers = new int[count];
            for (Member other : others) {
                other.transport.onMessage((from, buffer, offset, length) -> {
                    assertThat(from).isSameAs(connections.get(buffer.getInt(offset)).toB());
                    answers[buffer.getInt(offset)]++;
                });
            }
            for (int i = 0; i < count; i++) {
                number.putInt(0, i);
                assertThat(connections.get(i).toB().send(number, 0, 4)).isEqualTo(Endpoint.OK);
            }
            cluster.await(() -> Arrays.stream(answers).sum() == count, "all answers");
            assertThat(answers).containsOnly(1);
            assertThat(senders).doesNotHaveDuplicates();
        }
    }

    @Test
    void deliversMessagesSentBeforeAGoodbye() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            for (int i = 0; i < 100; i++) {
                assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            }
            c.toB().close();
            cluster.await(() -> c.b().lost.contains(c.toA()), "the goodbye");
            assertThat(c.b().messages).hasSize(100);
            assertThat(c.toA().receivedGoodbye()).isTrue();
            assertThat(c.toA().reason()).contains(c.a().transport.address()).contains("closed the connection");
            assertThat(c.toA().send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
            assertThat(c.toB().state()).isEqualTo(Endpoint.State.CLOSED);
        }
    }

    @Test
    void receivesLastMessagesWhileItSendsToAPeerThatHasClosed() throws InterruptedException {
        int words = 100; // More than one poll delivers.
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Member a = c.a();
            for (int i = 0; i < words; i++) {
                assertThat(c.toA().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            }
            Thread leaving = Thread.ofPlatform().start(c.b()::close);
            // Some wires wait for acknowledgements before they close.
            leaving.join(Duration.ofMillis(100));
            a.transport.onMessage((from, buffer, offset, length) -> {
                a.messages.add("received");
                c.toB().send(WORD, 0, 4);
            });
            cluster.await(() -> {
                c.toB().send(WORD, 0, 4);
                return !a.lost.isEmpty();
            }, "the goodbye");
            leaving.join();
            assertThat(a.messages).hasSize(words);
            assertThat(c.toB().reason()).isEqualTo(c.b().transport.address() + " closed the connection");
            assertThat(c.toB().receivedGoodbye()).isTrue();
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
        }
    }

    @Test
    void reportsThatThePeersTransportClosed() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            c.b().close();
            cluster.await(() -> c.a().lost.contains(c.toB()), "the loss");
            assertThat(c.toB().state()).isEqualTo(Endpoint.State.LOST);
            assertThat(c.toB().reason()).contains(c.b().transport.address());
            assertThat(c.a().lost).hasSize(1);
        }
    }

    @Test
    void endsAWaitAtItsDeadline() {
        try (Cluster cluster = new Cluster(setting)) {
            Transport a = cluster.member().transport;
            long begin = a.nanoTime();
            assertThatThrownBy(() -> a.await(() -> false, Duration.ofMillis(50), "an event that never happens"))
                    .isInstanceOfSatisfying(TransportException.class, e -> assertThat(e.problem())
                            .isEqualTo(TransportException.Problem.TIMED_OUT))
                    .hasMessageContaining("an event that never happens").hasMessageContaining("waited 50 ms for");
            assertThat(a.nanoTime() - begin).isBetween(Duration.ofMillis(50).toNanos(),
                    Duration.ofSeconds(10).toNanos());
        }
    }

    @Test
    void endsAWaitAtItsDeadlineEvenWithEndlessWork() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            c.b().transport.onMessage((from, buffer, offset, length) -> from.send(WORD, 0, 4));
            c.a().transport.onMessage((from, buffer, offset, length) -> {
                from.send(WORD, 0, 4);
                from.send(WORD, 0, 4);
            });
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            assertThatThrownBy(() -> c.a().transport.await(() -> c.b().transport.doWork() < 0, Duration.ofMillis(50),
                    "an event that never happens")).isInstanceOf(TransportException.class)
                    .hasMessageContaining("never happens");
        }
    }

    @Test
    void closesInAnyOrder() {
        for (int order = 0; order < 6; order++) {
            try (Cluster cluster = new Cluster(setting)) {
                Connection c = cluster.connect();
                Runnable[] closing = {c.toB()::close, c.a()::close, c.b()::close};
                int first = order % 3;
                int second = (first + 1 + order / 3) % 3;
                closing[first].run();
                closing[second].run();
                closing[3 - first - second].run();
                c.toB().close();
                c.a().close();
                assertThat(c.toB().state()).isEqualTo(Endpoint.State.CLOSED);
                assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
                assertThatThrownBy(() -> c.a().transport.connect("127.0.0.1:1", new byte[0]))
                        .isInstanceOf(TransportException.class).hasMessageContaining("closed");
                assertThatThrownBy(() -> c.a().transport.register(1)).isInstanceOf(TransportException.class);
            }
        }
    }

    @Test
    void closesWithinAHandler() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            List<Byte> received = new ArrayList<>();
            c.b().transport.onMessage((from, buffer, offset, length) -> {
                c.b().transport.close();
                received.add(buffer.getByte(offset + length - 1));
            });
            for (int i = 0; i < 3; i++) {
                assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            }
            c.b().driven = false;
            cluster.await(() -> {
                if (received.isEmpty()) {
                    c.b().transport.doWork();
                }
                return !c.toB().isConnected();
            }, "the end of the connection");
            assertThat(received).containsExactly(WORD.getByte(3));
            assertThat(c.toA().state()).isEqualTo(Endpoint.State.CLOSED);
            assertThatThrownBy(() -> c.b().transport.register(1)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("the transport is closed");
        }
    }

    @Test
    void keepsTwoClustersOfOneJvmApart() {
        try (Cluster ours = new Cluster(setting); Cluster theirs = ours.beside()) {
            Connection c = ours.connect();
            Connection d = theirs.connect();
            Endpoint stray = d.a().transport.connect(c.b().transport.address(), new byte[0]);
            ours.await(() -> theirs.work() >= 0 && stray.state() != Endpoint.State.CONNECTING, "the refusal");
            assertThat(stray.state()).isEqualTo(Endpoint.State.REFUSED);
            assertThat(stray.reason()).contains(c.b().transport.address()).contains("secret");
            assertThat(c.b().transport.counters().refusedStrangers()).isPositive();
            assertThat(c.b().accepted).hasSize(1);
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            assertThat(d.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            ours.await(() -> theirs.work() >= 0 && !c.b().messages.isEmpty() && !d.b().messages.isEmpty(), "words");
            assertThat(c.b().messages).containsExactly("word");
            assertThat(d.b().messages).containsExactly("word");
            assertThat(d.b().transport.counters().refused()).isZero();
        }
    }

    @Test
    void refusesAnotherNameOfTheSamePeer() {
        try (Cluster cluster = new Cluster(setting)) {
            String address = cluster.member().transport.address();
            if (!address.startsWith("127.0.0.1:")) {
                return;
            }
            String alias = address.replace("127.0.0.1", "localhost");
            Endpoint endpoint = cluster.member().transport.connect(alias, new byte[0]);
            cluster.await(() -> endpoint.state() == Endpoint.State.REFUSED, "the refusal");
            assertThat(endpoint.reason()).contains(alias).contains("has the address " + address);
        }
    }
}
