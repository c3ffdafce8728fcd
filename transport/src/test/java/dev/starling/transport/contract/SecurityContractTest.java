package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Endpoint;
import dev.starling.transport.FrameForge;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.Protection;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportCounters;
import dev.starling.transport.contract.Cluster.Connection;
import dev.starling.transport.contract.Cluster.Member;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What every transport does with strangers, replays and noise: it refuses and counts them, and no other peer is
 * disturbed.
 */
@Timeout(120)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#all")
class SecurityContractTest {
    private static final UnsafeBuffer WORD = new UnsafeBuffer("word".getBytes(StandardCharsets.US_ASCII));
    private static final Tap.Disturbance NONE = (message, inject) -> { };

    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    /** Two honest members, and a stranger that can reach one of them but does not have the secret. */
    private final class Attack implements AutoCloseable {
        final Cluster cluster = new Cluster(setting);
        final Tap tap = new Tap(cluster.environment.wire(cluster.config()), NONE);
        final Connection honest = cluster.connect(cluster.member(), cluster.member(tap));
        final Member hub = honest.b();
        final TransportCounters counters = hub.transport.counters();
        final Wire stranger = cluster.environment.wire(cluster.environment.config(Secret.random()));
        final Link link = stranger.open(hub.transport.address());

        void inject(byte[] message) {
            UnsafeBuffer buffer = new UnsafeBuffer(message);
            int length = Math.min(message.length, 8);
            cluster.await(() -> {
                stranger.poll((b, o, l) -> { }, 8);
                return link.offer(buffer, 0, length, message.length > length ? buffer : null, length,
                        message.length - length) == Wire.SENT;
            }, "the stranger's message");
        }

        void awaitRefusals(long count) {
            cluster.await(() -> {
                stranger.poll((b, o, l) -> { }, 8);
                return counters.refused() >= count;
            }, "the refusal");
        }

        void checkUndisturbed() {
            int before = hub.messages.size();
            int back = honest.a().messages.size();
            cluster.await(() -> honest.toB().send(WORD, 0, 4) == Endpoint.OK, "room");
            cluster.await(() -> honest.toA().send(WORD, 0, 4) == Endpoint.OK, "room");
            cluster.await(() -> hub.messages.size() > before && honest.a().messages.size() > back, "words");
            assertThat(hub.messages).hasSize(before + 1).containsOnly("word");
            assertThat(honest.a().messages).hasSize(back + 1).containsOnly("word");
            assertThat(hub.accepted).hasSize(1);
            assertThat(hub.lost).isEmpty();
            assertThat(hub.notified).isEmpty();
            assertThat(honest.a().lost).isEmpty();
            assertThat(honest.a().transport.counters().refused()).isZero();
        }

        @Override
        public void close() {
            link.close();
            stranger.close();
            cluster.close();
        }
    }

    @Test
    void refusesAStrangerAndNotifiesIt() {
        try (Attack attack = new Attack()) {
            int signatures = attack.tap.signatures;
            assertThat(signatures).as("signed HELLOs of the honest member").isPositive();
            Member stranger = attack.cluster.member(c -> new TransportConfig(c.provider(), Secret.random(), c.host(),
                    c.port(), c.directory(), c.sharedMemory(), c.livenessTimeout(), c.protection(), c.options()));
            Endpoint toHub = stranger.transport.connect(attack.hub.transport.address(), new byte[0]);
            Endpoint toStranger = attack.hub.transport.connect(stranger.transport.address(), new byte[0]);
            attack.cluster.await(() -> toHub.state() == Endpoint.State.REFUSED
                    && toStranger.state() == Endpoint.State.REFUSED, "the refusals");
            assertThat(toHub.reason()).contains(attack.hub.transport.address()).contains("same secret");
            assertThat(toStranger.reason()).contains(stranger.transport.address()).contains("same secret");
            assertThat(attack.counters.refusedStrangers()).isPositive();
            assertThat(attack.tap.signatures).as("signed HELLOs").isEqualTo(signatures);
            assertThat(stranger.transport.counters().refusedStrangers()).isPositive();
            assertThat(toHub.send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
            attack.checkUndisturbed();
        }
    }

    @Test
    void hidesMessagesWhereItEncrypts() {
        try (Attack attack = new Attack()) {
            attack.checkUndisturbed();
            boolean readable = attack.tap.recorded.stream()
                    .anyMatch(frame -> new String(frame, StandardCharsets.ISO_8859_1).contains("word"));
            assertThat(readable).isEqualTo(setting.protectionInUse() != Protection.ENCRYPTED);
        }
    }

    @Test
    void refusesReplaysWhileTheSessionLivesAndAfterwards() {
        try (Attack attack = new Attack()) {
            Connection c = attack.honest;
            MemoryRegion source = c.a().transport.register(64);
            RemoteRegion target = c.toB().open(attack.hub.transport.register(64).key(), false);
            assertThat(c.toB().put(source, 0, target, 0, 64, null)).isEqualTo(Endpoint.OK);
            attack.checkUndisturbed();
            List<byte[]> recorded = List.copyOf(attack.tap.recorded);
            assertThat(recorded.stream().map(FrameForge::type)).contains(FrameForge.HELLO, FrameForge.PROOF,
                    FrameForge.MESSAGE);
            long before = attack.counters.refused();
            for (int i = 0; i < 3; i++) {
                recorded.forEach(attack::inject);
            }
            attack.awaitRefusals(before + 3L * recorded.size());
            assertThat(attack.counters.refusedReplays()).isEqualTo(3L * recorded.size());
            attack.checkUndisturbed();

            c.toB().close();
            attack.cluster.await(() -> !attack.hub.lost.isEmpty(), "the goodbye");
            c.toA().close();
            long after = attack.counters.refused();
            recorded.stream().filter(f -> FrameForge.type(f) != FrameForge.HELLO).forEach(attack::inject);
            attack.awaitRefusals(after + recorded.stream().filter(f -> FrameForge.type(f) != FrameForge.HELLO).count());
            int messages = attack.hub.messages.size();
            recorded.stream().filter(f -> FrameForge.type(f) == FrameForge.HELLO).forEach(attack::inject);
            recorded.stream().filter(f -> FrameForge.type(f) != FrameForge.HELLO).forEach(attack::inject);
            attack.cluster.work(Duration.ofMillis(100));
            assertThat(attack.hub.accepted).hasSize(1);
            assertThat(attack.hub.messages).hasSize(messages);
        }
    }

    /** Injects every corrupted form of a message. */
    private static int corrupt(byte[] message, Consumer<byte[]> inject) {
        int count = 0;
        int step = Math.max(1, message.length / 200);
        for (int i = 0; i < message.length; i += step) {
            for (int bits : new int[] {1, 0x80, 0xFF}) {
                byte[] flipped = message.clone();
                flipped[i] ^= (byte) bits;
                inject.accept(flipped);
                count++;
            }
            inject.accept(Arrays.copyOf(message, i));
            count++;
        }
        for (int more : new int[] {1, 8, 32}) {
            inject.accept(Arrays.copyOf(message, message.length + more));
            count++;
        }
        return count;
    }

    @Test
    void refusesEveryCorruptedFormOfAFrameAndAcceptsTheOriginal() {
        try (Cluster cluster = new Cluster(setting)) {
            int[] injected = new int[2];
            Tap atA = new Tap(cluster.environment.wire(cluster.config()),
                    (m, inject) -> injected[0] += corrupt(m, inject));
            Tap atB = new Tap(cluster.environment.wire(cluster.config()),
                    (m, inject) -> injected[1] += corrupt(m, inject));
            Connection c = cluster.connect(cluster.member(atA), cluster.member(atB));
            MemoryRegion source = c.a().transport.register(100);
            RemoteRegion target = c.toB().open(c.b().transport.register(100).key(), false);
            boolean[] done = new boolean[1];
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            assertThat(c.toB().putAndNotify(source, 0, target, 0, 100, 9, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            cluster.await(() -> done[0] && c.b().notified.contains(9L) && !c.b().messages.isEmpty(), "all");
            c.toB().close();
            cluster.await(() -> c.b().lost.contains(c.toA()), "the goodbye");
            assertThat(c.toA().receivedGoodbye()).isTrue();
            assertThat(c.b().messages).containsExactly("word");
            assertThat(c.b().notified).containsExactly(9L);
            assertThat(c.a().transport.counters().refused()).isGreaterThanOrEqualTo(injected[0]);
            assertThat(c.b().transport.counters().refused()).isGreaterThanOrEqualTo(injected[1]);
            assertThat(injected[0] + injected[1]).isGreaterThan(2000);
        }
    }

    @Test
    void refusesWellFormedFramesWithoutMeaning() {
        try (Attack attack = new Attack()) {
            SplittableRandom random = new SplittableRandom(1);
            long before = attack.counters.refused();
            int count = 0;
            byte[] otherVersion = FrameForge.hello(attack.cluster.secret, 7, attack.stranger.address());
            otherVersion[2]++;
            attack.inject(otherVersion);
            count++;
            for (byte type = 0; type < 20; type++) {
                if (type != FrameForge.HELLO) {
                    attack.inject(FrameForge.frame(type, random.nextLong(), 1, 0, new byte[80]));
                    count++;
                }
            }
            // An attacker that has learned a session's number but not its key.
            long session = FrameForge.session(attack.tap.recorded.stream()
                    .filter(f -> FrameForge.type(f) == FrameForge.PROOF)
                    .findFirst().orElseThrow());
            for (byte type = 2; type < 20; type++) {
                for (long key : new long[] {0, 1, random.nextLong()}) {
                    attack.inject(FrameForge.frame(type, session, 3, key, new byte[80]));
                    count++;
                }
            }
            attack.awaitRefusals(before + count);
            attack.checkUndisturbed();
        }
    }

    @Test
    void acceptsNewPeersDuringAFloodOfHellosAndOpensFewLinks() {
        try (Attack attack = new Attack()) {
            Secret wrong = Secret.random();
            Member during = attack.cluster.member();
            Endpoint newcomer = during.transport.connect(attack.hub.transport.address(), new byte[0]);
            for (int i = 0; i < 300 || !newcomer.isConnected(); i++) {
                attack.inject(FrameForge.hello(wrong, i + 1, attack.stranger.address()));
                attack.cluster.work();
                assertThat(i).isLessThan(1_000_000);
            }
            attack.awaitRefusals(300);
            attack.cluster.await(() -> attack.hub.accepted.size() == 2, "the newcomer");
            attack.hub.accepted.removeLast();
            attack.checkUndisturbed();
            // Even from a process that could sign, or has recorded many signed frames.
            for (int i = 0; i < 100; i++) {
                attack.inject(FrameForge.hello(attack.cluster.secret, 5_000_000 + i, attack.stranger.address()));
            }
            attack.checkUndisturbed();
            Endpoint late = attack.cluster.member().transport.connect(attack.hub.transport.address(), new byte[0]);
            attack.cluster.await(late::isConnected, "the late peer");
            assertThat(attack.tap.maxLinksOpen).isLessThan(48);
            assertThat(attack.honest.toB().isConnected()).isTrue();
            assertThat(attack.hub.lost).isEmpty();
        }
    }

    /** Over some wires a link costs megabytes, so that refusals could be what an attacker wants. */
    @Test
    void refusesAFloodOfStrangersWithoutALinkForEach() {
        try (Attack attack = new Attack()) {
            Secret wrong = Secret.random();
            int before = attack.tap.linksOpened;
            long begin = attack.tap.clock().nanoTime();
            for (int i = 0; i < 200; i++) {
                attack.inject(FrameForge.hello(wrong, i + 1, attack.stranger.address()));
                attack.cluster.work();
            }
            attack.awaitRefusals(200);
            long seconds = Duration.ofNanos(attack.tap.clock().nanoTime() - begin).toSeconds();
            assertThat((long) attack.tap.linksOpened - before).isBetween(1L, 2 + seconds);
            attack.checkUndisturbed();
        }
    }

    @Test
    void opensNoLinkForAStrangersMalformedAddress() {
        try (Attack attack = new Attack()) {
            for (String address : new String[] {"absent.invalid:80", "255.255.255.255:9", "0.0.0.0:1", "127.0.0.1:0",
                "127.0.0.1:99999", "[::", "x|endpoint=127.0.0.1:1", "/etc/passwd", "-", "127.0.0.1:1?mtu=9"}) {
                attack.inject(FrameForge.hello(Secret.random(), 77, address));
                attack.inject(FrameForge.hello(attack.cluster.secret, 78, address));
            }
            attack.awaitRefusals(10);
            attack.cluster.work(Duration.ofMillis(100));
            attack.checkUndisturbed();
        }
    }

    @Test
    void refusesNoiseAndLogsLittle() {
        refuseNoise(1500);
    }

    @Test
    @Tag("stress")
    void refusesMuchNoiseAndLogsLittle() {
        refuseNoise(100_000);
    }

    private void refuseNoise(int count) {
        AtomicInteger logged = new AtomicInteger();
        Logger logger = Logger.getLogger("dev.starling.transport");
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                logged.incrementAndGet();
            }

            @Override
            public void flush() { }

            @Override
            public void close() { }
        };
        logger.addHandler(handler);
        long begin = System.nanoTime();
        try (Attack attack = new Attack()) {
            SplittableRandom random = new SplittableRandom(2);
            long before = attack.counters.refused();
            for (int i = 0; i < count; i++) {
                byte[] noise = new byte[1 + random.nextInt(random.nextInt(10) == 0 ? 4000 : 150)];
                random.nextBytes(noise);
                if (noise.length >= 32 && i % 2 == 0) {
                    FrameForge.putStart(noise, (byte) random.nextInt(12));
                }
                attack.inject(noise);
            }
            attack.awaitRefusals(before + count);
            assertThat(attack.counters.refused()).isEqualTo(before + count);
            attack.checkUndisturbed();
        } finally {
            logger.removeHandler(handler);
        }
        assertThat(logged.get()).isBetween(1, 10 + (int) Duration.ofNanos(System.nanoTime() - begin).toSeconds());
    }
}
