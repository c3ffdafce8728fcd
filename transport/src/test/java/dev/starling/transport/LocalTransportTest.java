package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

class LocalTransportTest {
    private static final Duration SOON = Duration.ofSeconds(5);

    @Test
    void connectsSendsAndPuts() {
        Secret secret = Secret.random();
        for (boolean shared : new boolean[] {true, false}) {
            TransportConfig config = TransportConfig.of("local", secret).sharedMemory(shared);
            try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
                List<Endpoint> accepted = new ArrayList<>();
                List<String> heard = new ArrayList<>();
                List<Long> told = new ArrayList<>();
                b.onConnection(new ConnectionHandler() {
                    @Override
                    public void accepted(Endpoint endpoint) {
                        accepted.add(endpoint);
                    }
                });
                b.onMessage((from, buffer, offset, length) -> heard.add(buffer.getStringWithoutLengthAscii(offset,
                        length)));
                b.onPut((from, immediate) -> told.add(immediate));
                Endpoint toB = a.connect(b.address(), "hello".getBytes(StandardCharsets.US_ASCII));
                both(a, b, () -> toB.isConnected() && accepted.size() == 1);
                assertThat(new String(accepted.getFirst().greeting(), StandardCharsets.US_ASCII)).isEqualTo("hello");

                UnsafeBuffer message = new UnsafeBuffer("first".getBytes(StandardCharsets.US_ASCII));
                assertThat(toB.send(message, 0, 5)).isEqualTo(Endpoint.OK);
                both(a, b, () -> heard.size() == 1);
                assertThat(heard).containsExactly("first");

                int bytes = 3 << 20;
                MemoryRegion source = a.register(bytes);
                MemoryRegion target = b.register(bytes);
                for (int i = 0; i < bytes / 4; i++) {
                    source.memory().setAtIndex(ValueLayout.JAVA_INT, i, i * 7);
                }
                RemoteRegion remote = toB.open(RegionKey.decode(target.key().encode()));
                assertThat(remote.memory() != null).isEqualTo(shared);
                boolean[] done = new boolean[1];
                assertThat(toB.putAndTell(source, 0, remote, 0, bytes, 42, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
                both(a, b, () -> done[0] && told.size() == 1);
                assertThat(told).containsExactly(42L);
                assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
                remote.close();
            }
        }
    }

    @Test
    void tellsAPeerThatWasTooLongSilentWhyItWasLost() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(1));
        try (Transport a = Transport.open(config); Transport b = Transport.open(config)) {
            List<Endpoint> accepted = new ArrayList<>();
            b.onConnection(new ConnectionHandler() {
                @Override
                public void accepted(Endpoint endpoint) {
                    accepted.add(endpoint);
                }
            });
            Endpoint toB = a.connect(b.address(), new byte[0]);
            both(a, b, () -> toB.isConnected() && accepted.size() == 1);
            Endpoint toA = accepted.getFirst();

            b.await(() -> toA.state() == Endpoint.State.LOST, SOON, "the loss of one that does nothing");
            assertThat(toA.reason()).startsWith("nothing heard from " + a.address());
            // It does not know, and goes on.
            for (int i = 0; i < 3; i++) {
                assertThat(toB.send(new UnsafeBuffer(new byte[8]), 0, 8)).isEqualTo(Endpoint.OK);
            }
            b.await(() -> b.counters().refusedReplays() == 3, SOON, "what came late");
            a.await(() -> toB.state() == Endpoint.State.LOST, SOON, "the news");
            assertThat(toB.reason()).startsWith(b.address() + " ended the connection: nothing heard for ");
        }
    }

    private static void both(Transport a, Transport b, java.util.function.BooleanSupplier condition) {
        a.await(() -> b.doWork() >= 0 && condition.getAsBoolean(), SOON, "both");
    }
}
