package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Insides;
import dev.starling.transport.MemoryRegion;
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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** What every transport does with strangers, replays and noise: refuse, count, and let nobody else notice. */
@Timeout(120)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#all")
class SecurityContractTest {
    private static final UnsafeBuffer WORD = new UnsafeBuffer("word".getBytes(StandardCharsets.US_ASCII));
    private static final Tap.Disturbance NONE = (message, say) -> { };

    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    /** Two honest members, and a stranger who can reach one of them but knows nothing. */
    private final class Siege implements AutoCloseable {
        final Cluster cluster = new Cluster(setting);
        final Tap tap = new Tap(cluster.site.wire(cluster.config()), NONE);
        final Connection honest = cluster.connect(cluster.member(), cluster.member(tap));
        final Member hub = honest.b();
        final TransportCounters counters = hub.transport.counters();
        final Wire stranger = cluster.site.wire(cluster.site.config(Secret.random()));
        final Link link = stranger.open(hub.transport.address());

        void say(byte[] message) {
            UnsafeBuffer buffer = new UnsafeBuffer(message);
            int length = Math.min(message.length, 8);
            cluster.await(() -> {
                stranger.poll((b, o, l) -> { }, 8);
                return link.offer(buffer, 0, length, message.length > length ? buffer : null, length,
                        message.length - length) == Wire.SENT;
            }, "the stranger's message");
        }

        void awaitRefused(long count) {
            cluster.await(() -> {
                stranger.poll((b, o, l) -> { }, 8);
                return counters.refused() >= count;
            }, "the refusal");
        }

        void checkUnnoticed() {
            int before = hub.messages.size();
            int back = honest.a().messages.size();
            cluster.await(() -> honest.toB().send(WORD, 0, 4) == Endpoint.OK, "room");
            cluster.await(() -> honest.toA().send(WORD, 0, 4) == Endpoint.OK, "room");
            cluster.await(() -> hub.messages.size() > before && honest.a().messages.size() > back, "words");
            assertThat(hub.messages).hasSize(before + 1).containsOnly("word");
            assertThat(honest.a().messages).hasSize(back + 1).containsOnly("word");
            assertThat(hub.accepted).hasSize(1);
            assertThat(hub.lost).isEmpty();
            assertThat(hub.told).isEmpty();
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
    void refusesAStrangerAndTellsHim() {
        try (Siege siege = new Siege()) {
            Member stranger = siege.cluster.member(c -> new TransportConfig(c.provider(), Secret.random(), c.host(),
                    c.port(), c.directory(), c.sharedMemory(), c.silence(), c.options()));
            Endpoint toHub = stranger.transport.connect(siege.hub.transport.address(), new byte[0]);
            Endpoint toStranger = siege.hub.transport.connect(stranger.transport.address(), new byte[0]);
            siege.cluster.await(() -> toHub.state() == Endpoint.State.REFUSED
                    && toStranger.state() == Endpoint.State.REFUSED, "the refusals");
            assertThat(toHub.reason()).contains(siege.hub.transport.address()).contains("same secret");
            assertThat(toStranger.reason()).contains(stranger.transport.address()).contains("same secret");
            assertThat(siege.counters.refusedStrangers()).isPositive();
            assertThat(stranger.transport.counters().refusedStrangers()).isPositive();
            assertThat(toHub.send(WORD, 0, 4)).isEqualTo(Endpoint.CLOSED);
            siege.checkUnnoticed();
        }
    }

    @Test
    void refusesReplaysWhileTheSessionLivesAndAfterwards() {
        try (Siege siege = new Siege()) {
            Connection c = siege.honest;
            MemoryRegion source = c.a().transport.register(64);
            RemoteRegion target = c.toB().open(siege.hub.transport.register(64).key(), false);
            assertThat(c.toB().put(source, 0, target, 0, 64, null)).isEqualTo(Endpoint.OK);
            siege.checkUnnoticed();
            List<byte[]> heard = List.copyOf(siege.tap.heard);
            assertThat(heard.stream().map(Insides::type)).contains(Insides.HELLO, Insides.PROOF, Insides.MESSAGE);
            long before = siege.counters.refused();
            for (int i = 0; i < 3; i++) {
                heard.forEach(siege::say);
            }
            siege.awaitRefused(before + 3L * heard.size());
            assertThat(siege.counters.refusedReplays()).isEqualTo(3L * heard.size());
            siege.checkUnnoticed();

            c.toB().close();
            siege.cluster.await(() -> !siege.hub.lost.isEmpty(), "the goodbye");
            c.toA().close();
            long after = siege.counters.refused();
            heard.stream().filter(f -> Insides.type(f) != Insides.HELLO).forEach(siege::say);
            siege.awaitRefused(after + heard.stream().filter(f -> Insides.type(f) != Insides.HELLO).count());
            int messages = siege.hub.messages.size();
            heard.stream().filter(f -> Insides.type(f) == Insides.HELLO).forEach(siege::say);
            heard.stream().filter(f -> Insides.type(f) != Insides.HELLO).forEach(siege::say);
            siege.cluster.work(Duration.ofMillis(300));
            assertThat(siege.hub.accepted).hasSize(1);
            assertThat(siege.hub.messages).hasSize(messages);
        }
    }

    /** Says every mangled form of a message. */
    private static int mangle(byte[] message, Consumer<byte[]> say) {
        int count = 0;
        int step = Math.max(1, message.length / 200);
        for (int i = 0; i < message.length; i += step) {
            for (int bits : new int[] {1, 0x80, 0xFF}) {
                byte[] flipped = message.clone();
                flipped[i] ^= (byte) bits;
                say.accept(flipped);
                count++;
            }
            say.accept(Arrays.copyOf(message, i));
            count++;
        }
        for (int more : new int[] {1, 8, 32}) {
            say.accept(Arrays.copyOf(message, message.length + more));
            count++;
        }
        return count;
    }

    @Test
    void refusesEveryMangledFormOfEveryFrameAndTakesTheRealOne() {
        try (Cluster cluster = new Cluster(setting)) {
            int[] said = new int[2];
            Tap atA = new Tap(cluster.site.wire(cluster.config()), (m, say) -> said[0] += mangle(m, say));
            Tap atB = new Tap(cluster.site.wire(cluster.config()), (m, say) -> said[1] += mangle(m, say));
            Connection c = cluster.connect(cluster.member(atA), cluster.member(atB));
            MemoryRegion source = c.a().transport.register(100);
            RemoteRegion target = c.toB().open(c.b().transport.register(100).key(), false);
            boolean[] done = new boolean[1];
            assertThat(c.toB().send(WORD, 0, 4)).isEqualTo(Endpoint.OK);
            assertThat(c.toB().putAndTell(source, 0, target, 0, 100, 9, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            cluster.await(() -> done[0] && c.b().told.contains(9L) && !c.b().messages.isEmpty(), "all");
            c.toB().close();
            cluster.await(() -> c.b().lost.contains(c.toA()), "the goodbye");
            assertThat(c.toA().saidGoodbye()).isTrue();
            assertThat(c.b().messages).containsExactly("word");
            assertThat(c.b().told).containsExactly(9L);
            assertThat(c.a().transport.counters().refused()).isGreaterThanOrEqualTo(said[0]);
            assertThat(c.b().transport.counters().refused()).isGreaterThanOrEqualTo(said[1]);
            assertThat(said[0] + said[1]).isGreaterThan(2000);
        }
    }

    @Test
    void refusesWhatIsWellFormedButMeansNothing() {
        try (Siege siege = new Siege()) {
            SplittableRandom random = new SplittableRandom(1);
            long before = siege.counters.refused();
            int count = 0;
            byte[] otherVersion = Insides.hello(siege.cluster.secret, 7, siege.stranger.address());
            otherVersion[2]++;
            siege.say(otherVersion);
            count++;
            for (byte type = 0; type < 20; type++) {
                if (type != Insides.HELLO) {
                    siege.say(Insides.frame(type, random.nextLong(), 1, 0, new byte[80]));
                    count++;
                }
            }
            // Somebody who has learned a session's number but not its key.
            long session = Insides.session(siege.tap.heard.stream().filter(f -> Insides.type(f) == Insides.PROOF)
                    .findFirst().orElseThrow());
            for (byte type = 2; type < 20; type++) {
                for (long key : new long[] {0, 1, random.nextLong()}) {
                    siege.say(Insides.frame(type, session, 3, key, new byte[80]));
                    count++;
                }
            }
            siege.awaitRefused(before + count);
            siege.checkUnnoticed();
        }
    }

    @Test
    void takesNewPeersDuringAFloodOfHellosAndOpensFewLinksForIt() {
        try (Siege siege = new Siege()) {
            Secret wrong = Secret.random();
            Member during = siege.cluster.member();
            Endpoint newcomer = during.transport.connect(siege.hub.transport.address(), new byte[0]);
            for (int i = 0; i < 300 || !newcomer.isConnected(); i++) {
                siege.say(Insides.hello(wrong, i + 1, siege.stranger.address()));
                siege.cluster.work();
                assertThat(i).isLessThan(1_000_000);
            }
            siege.awaitRefused(300);
            siege.cluster.await(() -> siege.hub.accepted.size() == 2, "the newcomer");
            siege.hub.accepted.removeLast();
            siege.checkUnnoticed();
            // Even of one who could sign, or has heard many that were signed.
            for (int i = 0; i < 100; i++) {
                siege.say(Insides.hello(siege.cluster.secret, 5_000_000 + i, siege.stranger.address()));
            }
            siege.checkUnnoticed();
            Endpoint late = siege.cluster.member().transport.connect(siege.hub.transport.address(), new byte[0]);
            siege.cluster.await(late::isConnected, "who came late");
            assertThat(siege.tap.mostLinksOpen).isLessThan(48);
            assertThat(siege.honest.toB().isConnected()).isTrue();
            assertThat(siege.hub.lost).isEmpty();
        }
    }

    @Test
    void opensNothingForAStrangersImpossibleAddress() {
        try (Siege siege = new Siege()) {
            for (String address : new String[] {"nobody.invalid:80", "255.255.255.255:9", "0.0.0.0:1", "127.0.0.1:0",
                "127.0.0.1:99999", "[::", "x|endpoint=127.0.0.1:1", "/etc/passwd", "-", "127.0.0.1:1?mtu=9"}) {
                siege.say(Insides.hello(Secret.random(), 77, address));
                siege.say(Insides.hello(siege.cluster.secret, 78, address));
            }
            siege.awaitRefused(10);
            siege.cluster.work(Duration.ofMillis(300));
            siege.checkUnnoticed();
        }
    }

    @Test
    void refusesNoiseAndSaysLittleOfIt() {
        int count = setting.provider().equals("local") || setting.isSimulated() ? 100_000 : 5_000;
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
        try (Siege siege = new Siege()) {
            SplittableRandom random = new SplittableRandom(2);
            long before = siege.counters.refused();
            for (int i = 0; i < count; i++) {
                byte[] noise = new byte[1 + random.nextInt(random.nextInt(10) == 0 ? 4000 : 150)];
                random.nextBytes(noise);
                if (noise.length >= 32 && i % 2 == 0) {
                    UnsafeBuffer frame = new UnsafeBuffer(noise);
                    frame.putShort(0, (short) 0x5354);
                    frame.putByte(2, (byte) 1);
                    frame.putByte(3, (byte) random.nextInt(12));
                    frame.putInt(4, noise.length);
                }
                siege.say(noise);
            }
            siege.awaitRefused(before + count);
            assertThat(siege.counters.refused()).isEqualTo(before + count);
            siege.checkUnnoticed();
        } finally {
            logger.removeHandler(handler);
        }
        assertThat(logged.get()).isBetween(1, 10 + (int) Duration.ofNanos(System.nanoTime() - begin).toSeconds());
    }
}
