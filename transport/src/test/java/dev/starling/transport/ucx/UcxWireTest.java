package dev.starling.transport.ucx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider.Availability;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class UcxWireTest {
    private static final Inbox NOTHING = (buffer, offset, length) -> { };
    private static final UnsafeBuffer HEADER = new UnsafeBuffer(new byte[8]);

    @BeforeEach
    void findLibrary() {
        assumeTrue(new UcxWireProvider().availability() instanceof Availability.Ready,
                "UCX (libucp.so.0) is not installed here");
    }

    private static TransportConfig config() {
        return TransportConfig.of("ucx", Secret.ofText("sixteen bytes or more"));
    }

    private static TransportConfig config(String tls) {
        return config().option("tls", tls);
    }

    private static Wire open(TransportConfig config) {
        return new UcxWireProvider().open(config);
    }

    private static TransportException failure(TransportConfig config) {
        return catchThrowableOfType(TransportException.class, () -> open(config).close());
    }

    private static int offer(Link link, byte[] body) {
        return link.offer(HEADER, 0, HEADER.capacity(), new UnsafeBuffer(body), 0, body.length);
    }

    private static void await(BooleanSupplier condition, Wire... driven) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime()).as("in time").isLessThan(deadline);
            for (Wire wire : driven) {
                wire.poll(NOTHING, 16);
            }
        }
    }

    /** Messages of sizes from none to the longest, with contents that tell which is which. */
    private static byte[] message(int index, int longest) {
        int[] sizes = {0, 1, 31, longest - 8, 1000, 8192 - 24, 8193, 64 << 10, 3, 262_144, 262_120, longest - 9, 1};
        byte[] body = new byte[sizes[index % sizes.length]];
        new Random(index).nextBytes(body);
        return body;
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self", "all"})
    void shouldCarryMessagesOfAllSizesInOrder(String tls) {
        try (Wire from = open(config(tls)); Wire to = open(config(tls))) {
            Link link = from.open(to.address());
            int count = 200;
            int[] received = {0};
            Inbox check = (buffer, offset, length) -> {
                byte[] body = new byte[length - HEADER.capacity()];
                buffer.getBytes(offset + HEADER.capacity(), body);
                assertThat(body).isEqualTo(message(received[0], from.maxMessageLength()));
                received[0]++;
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
    void shouldHandOverNoMoreThanWanted() {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
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
                    if (length == 9) {
                        assertThat(buffer.getByte(offset + 8)).isEqualTo((byte) ++received[0]);
                    }
                }, 2);
                assertThat(received[0] - before).isLessThanOrEqualTo(2);
                return received[0] == 99;
            }, from);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void shouldPressBackAndLoseNothing(String tls) {
        try (Wire from = open(config(tls)); Wire to = open(config(tls))) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            byte[] body = new byte[10_000];
            int sent = 0;
            int code;
            while ((code = offer(link, body)) == Wire.SENT) {
                sent++;
                from.poll(NOTHING, 1);
            }
            assertThat(code).isEqualTo(Wire.BACK_PRESSURED);
            assertThat(sent).as("messages under way").isBetween(100, 5000);
            int expected = sent + 1;
            int[] received = {0};
            boolean[] last = {false};
            await(() -> {
                last[0] = last[0] || offer(link, body) == Wire.SENT;
                to.poll((buffer, offset, length) -> received[0] += length == body.length + 8 ? 1 : 0, 16);
                return last[0] && received[0] == expected;
            }, from);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void shouldDeliverWhatWasSentBeforeClosing(String tls) throws InterruptedException {
        try (Wire to = open(config(tls))) {
            int count = 150;
            Thread sender = Thread.ofPlatform().start(() -> {
                try (Wire from = open(config(tls))) {
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
                to.poll((buffer, offset, length) -> received[0]++, 16);
                return received[0] == count;
            });
            sender.join();
        }
    }

    @Test
    void shouldReachItself() {
        try (Wire wire = open(config())) {
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
    void shouldLetTheInboxAnswerAndFail() {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link there = from.open(to.address());
            Link back = to.open(from.address());
            await(() -> offer(there, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(back, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(there, new byte[5]) == Wire.SENT, from);
            boolean[] answered = {false};
            assertThatThrownBy(() -> await(() -> {
                to.poll((buffer, offset, length) -> {
                    assertThat(offer(back, new byte[6])).isEqualTo(Wire.SENT);
                    throw new IllegalStateException("of the inbox");
                }, 1);
                return false;
            }, from)).isInstanceOf(IllegalStateException.class).hasMessage("of the inbox");
            await(() -> {
                from.poll((buffer, offset, length) -> answered[0] |= length == 14, 1);
                return answered[0];
            }, to);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void shouldTellThatTheOtherEndIsGone(String tls) {
        try (Wire from = open(config(tls)); Wire other = open(config(tls))) {
            Wire to = open(config(tls));
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
                from.poll(NOTHING, 1);
                assertThat(offer(again, new byte[4])).isEqualTo(Wire.NOT_CONNECTED);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"tcp,network", "'sm,self',network", "tcp,messages", "'sm,self',messages", "all,messages"})
    void shouldOutliveAKilledPeer(String tls, String writes) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls, "writes=" + writes);
        try (Wire wire = open(config(tls).option("writes", writes));
                Wire other = open(config(tls).option("writes", writes));
                Arena arena = Arena.ofShared()) {
            Link link = wire.open(peer.inputReader().readLine());
            Link lasting = wire.open(other.address());
            byte[] key = meet(wire, link);
            RemoteWrites.Target target = ((RemoteWrites) wire).attach(link, key);
            MemorySegment source = arena.allocate(UcxPeer.MEMORY);
            int[] completed = {0};
            int begun = 0;
            for (; begun < 8; begun++) {
                assertThat(target.put(0, source, (tag, written) -> completed[0]++, begun)).isEqualTo(Wire.SENT);
            }
            peer.destroyForcibly().waitFor();
            long begin = System.nanoTime();
            await(() -> offer(link, new byte[1000]) == Wire.CLOSED, wire);
            assertThat(System.nanoTime() - begin).as("time to notice").isLessThan(TimeUnit.SECONDS.toNanos(5));
            int expected = begun;
            await(() -> completed[0] == expected, wire);
            assertThat(target.put(0, source, (tag, written) -> { }, 0)).isEqualTo(Wire.CLOSED);
            target.close();
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, wire, other);
        } finally {
            peer.destroyForcibly().waitFor();
        }
    }

    /** Tells the peer this wire's address, and returns the key that it answers. */
    private static byte[] meet(Wire wire, Link link) {
        UnsafeBuffer address = new UnsafeBuffer(wire.address().getBytes(StandardCharsets.US_ASCII));
        await(() -> link.offer(address, 0, address.capacity(), null, 0, 0) == Wire.SENT, wire);
        byte[][] key = new byte[1][];
        await(() -> {
            wire.poll((buffer, offset, length) -> {
                key[0] = new byte[length];
                buffer.getBytes(offset, key[0]);
            }, 1);
            return key[0] != null;
        });
        return key[0];
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void shouldCloseInTimeThoughAPeerIsStopped(String tls) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls);
        try {
            Wire wire = open(config(tls));
            Link link = wire.open(peer.inputReader().readLine());
            meet(wire, link);
            assertThat(new ProcessBuilder("kill", "-STOP", Long.toString(peer.pid())).start().waitFor()).isZero();
            for (int i = 0; i < 10_000 && offer(link, new byte[10_000]) == Wire.SENT; i++) {
                wire.poll(NOTHING, 1);
            }
            long begin = System.nanoTime();
            wire.close();
            assertThat(System.nanoTime() - begin).isLessThan(TimeUnit.SECONDS.toNanos(5));
        } finally {
            peer.destroyForcibly().waitFor();
        }
    }

    @ParameterizedTest
    @CsvSource({"tcp,network", "'sm,self',network", "tcp,messages", "'sm,self',messages", "all,messages"})
    void shouldWriteIntoThePeersMemory(String tls, String writes) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls, "writes=" + writes);
        try (Wire wire = open(config(tls).option("writes", writes)); Arena arena = Arena.ofShared()) {
            Link link = wire.open(peer.inputReader().readLine());
            RemoteWrites.Target target = ((RemoteWrites) wire).attach(link, meet(wire, link));
            MemorySegment source = arena.allocate(UcxPeer.MEMORY);
            long[] completed = {-1};
            for (int i = 0; i < 20; i++) {
                source.set(ValueLayout.JAVA_LONG, 0, 1000 + i);
                MemorySegment part = i % 2 == 0 ? source : source.asSlice(0, 8);
                int index = i;
                await(() -> target.put(0, part, (tag, written) -> completed[0] = written ? tag : -2, index)
                        == Wire.SENT, wire);
                await(() -> completed[0] == index, wire);
                // The peer answers with what it finds in its memory.
                await(() -> offer(link, new byte[1]) == Wire.SENT, wire);
                long[] found = {-1};
                await(() -> {
                    wire.poll((buffer, offset, length) -> found[0] = buffer.getLong(offset), 1);
                    return found[0] >= 0;
                });
                assertThat(found[0]).isEqualTo(1000 + i);
            }
            assertThatThrownBy(() -> target.put(1, source, (tag, written) -> { }, 0))
                    .isInstanceOf(TransportException.class).hasMessageContaining("is not within the target's 1048576");
            target.close();
            await(() -> offer(link, new byte[1]) == Wire.SENT, wire);
        } finally {
            peer.destroyForcibly().waitFor();
        }
    }

    @ParameterizedTest
    @CsvSource({"tcp,network", "'sm,self',network", "tcp,messages", "'sm,self',messages", "all,messages"})
    void shouldWriteBothWaysAtOnce(String tls, String writes) {
        try (Wire left = open(config(tls).option("writes", writes));
                Wire right = open(config(tls).option("writes", writes));
                Arena arena = Arena.ofShared()) {
            Link there = left.open(right.address());
            Link back = right.open(left.address());
            await(() -> offer(there, new byte[4]) == Wire.SENT, left, right);
            await(() -> offer(back, new byte[4]) == Wire.SENT, left, right);
            int bytes = 300_001;
            int count = 12;
            MemorySegment[] memory = new MemorySegment[4];
            for (int i = 0; i < memory.length; i++) {
                memory[i] = arena.allocate((long) bytes * count, 64);
            }
            byte[] random = new byte[bytes * count];
            new Random(5).nextBytes(random);
            MemorySegment.copy(random, 0, memory[0], ValueLayout.JAVA_BYTE, 0, random.length);
            MemorySegment.copy(random, 0, memory[1], ValueLayout.JAVA_BYTE, 0, random.length);
            try (RemoteWrites.Registration inLeft = ((RemoteWrites) left).register(memory[2]);
                    RemoteWrites.Registration inRight = ((RemoteWrites) right).register(memory[3]);
                    RemoteWrites.Target toRight = ((RemoteWrites) left).attach(there, inRight.key());
                    RemoteWrites.Target toLeft = ((RemoteWrites) right).attach(back, inLeft.key())) {
                int[] written = {0};
                RemoteWrites.Completion count1 = (tag, success) -> written[0] += success ? 1 : 0;
                for (int i = 0; i < count; i++) {
                    long at = (long) i * bytes;
                    assertThat(toRight.put(at, memory[0].asSlice(at, bytes), count1, i)).isEqualTo(Wire.SENT);
                    assertThat(toLeft.put(at, memory[1].asSlice(at, bytes), count1, i)).isEqualTo(Wire.SENT);
                }
                await(() -> written[0] == 2 * count, left, right);
                assertThat(memory[2].mismatch(memory[1])).isEqualTo(-1);
                assertThat(memory[3].mismatch(memory[0])).isEqualTo(-1);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void shouldHandOverMessagesAfterTheWritesBeforeThem(String tls) {
        TransportConfig config = config(tls).option("writes", "messages");
        try (Wire from = open(config); Wire to = open(config); Arena arena = Arena.ofShared()) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            int rounds = 50;
            int bytes = 3_000_000;
            MemorySegment target = arena.allocate(bytes);
            MemorySegment[] sources = new MemorySegment[rounds];
            try (RemoteWrites.Registration registration = ((RemoteWrites) to).register(target);
                    RemoteWrites.Target writer = ((RemoteWrites) from).attach(link, registration.key())) {
                assertThat(writer.isOrdered()).isTrue();
                int[] sent = {0};
                int[] told = {0};
                int[] written = {0};
                await(() -> {
                    int round = sent[0];
                    // The next put waits until the target has been looked at.
                    if (round < rounds && told[0] == round) {
                        if (sources[round] == null) {
                            sources[round] = arena.allocate(bytes).fill((byte) (round + 1));
                            assertThat(writer.put(0, sources[round], (tag, done) -> written[0] += done ? 1 : 0, 0))
                                    .isEqualTo(Wire.SENT);
                        }
                        sent[0] += offer(link, new byte[] {(byte) round}) == Wire.SENT ? 1 : 0;
                    }
                    to.poll((buffer, offset, length) -> {
                        if (length == 9) {
                            assertThat(buffer.getByte(offset + 8)).isEqualTo((byte) told[0]++);
                            assertThat(target.mismatch(sources[told[0] - 1])).isEqualTo(-1);
                        }
                    }, 4);
                    return written[0] == rounds && told[0] == rounds;
                }, from);
            }
        }
    }

    @Test
    void shouldEndALinkThatWritesWhereItMayNot() {
        TransportConfig config = config("tcp").option("writes", "messages");
        try (Wire from = open(config); Wire to = open(config); Arena arena = Arena.ofShared()) {
            Link link = from.open(to.address());
            Link lasting = to.open(from.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
            MemorySegment target = arena.allocate(100);
            RemoteWrites.Registration registration = ((RemoteWrites) to).register(target);
            byte[] forged = registration.key();
            forged[forged.length - 1] ^= 1;
            RemoteWrites.Target writer = ((RemoteWrites) from).attach(link, forged);
            boolean[] done = new boolean[2];
            MemorySegment source = arena.allocate(100).fill((byte) 1);
            assertThat(writer.put(0, source, (tag, written) -> {
                done[0] = true;
                done[1] = written;
            }, 7)).isEqualTo(Wire.SENT);
            await(() -> done[0], from, to);
            assertThat(done[1]).as("written").isFalse();
            assertThat(target.get(ValueLayout.JAVA_BYTE, 0)).isZero();
            assertThat(offer(link, new byte[4])).isEqualTo(Wire.CLOSED);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"network", "messages"})
    void shouldCloseWithMemoryStillRegistered(String writes) {
        RemoteWrites.Registration late;
        try (Wire wire = open(config().option("writes", writes)); Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(1 << 20);
            ((RemoteWrites) wire).register(memory).close();
            late = ((RemoteWrites) wire).register(memory);
            assertThat(late.key()).hasSizeBetween(1, RemoteWrites.MAX_KEY_LENGTH);
        }
        late.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 24, 25, 100, 513})
    void shouldRefuseWhatIsNoKey(int length) {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            assertThatThrownBy(() -> ((RemoteWrites) from).attach(link, new byte[length]))
                    .isInstanceOf(TransportException.class)
                    .hasMessageContaining("these " + length + " bytes are no key");
        }
    }

    @Test
    void shouldWaitForAPeerThatComesLater() throws IOException {
        int port;
        try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = probe.getLocalPort();
        }
        try (Wire from = open(config())) {
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
    void shouldIgnoreWhoDoesNotSpeakUcx() throws IOException {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            int port = Integer.parseInt(to.address().substring(to.address().indexOf(':') + 1));
            for (int seed = 0; seed < 20; seed++) {
                try (Socket stranger = new Socket(InetAddress.getLoopbackAddress(), port)) {
                    byte[] noise = new byte[1 + 97 * seed];
                    new Random(seed).nextBytes(noise);
                    OutputStream out = stranger.getOutputStream();
                    out.write(noise);
                    out.flush();
                    await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
                } catch (SocketException e) {
                    assertThat(e).as("turned away").hasMessageMatching(".*(reset|Broken pipe|closed).*");
                }
            }
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
        }
    }

    @Test
    void shouldTellThatThePortIsInUse() {
        try (Wire first = open(config())) {
            int port = Integer.parseInt(first.address().substring(first.address().indexOf(':') + 1));
            TransportException e = failure(config().at("127.0.0.1", port));
            assertThat(e.problem()).isEqualTo(Problem.IN_USE);
            assertThat(e).hasMessageContaining("port " + port).hasMessageContaining("0 for any");
        }
    }

    @Test
    void shouldTellThatAnAddressIsNotOfThisMachine() {
        assertThat(failure(config().at("192.0.2.1", 0))).hasMessageContaining("cannot listen at /192.0.2.1");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "tls; t c p; 't c p' is no value of the option 'tls'",
        "tls; tcp,infiniband; 'tcp,infiniband' is no value of the option 'tls'",
        "devices; none0; there is no network device 'none0' here",
        "UCX_TCP_RX_SEG_SIZE; large; 'large' is no value of the option 'UCX_TCP_RX_SEG_SIZE'",
        "UCX_TCP_RX_SEG_SIZE; 4k; UCX cannot be set up with",
        "UCX_TCP_SEGMENT; 4k; no option 'UCX_TCP_SEGMENT'; it has [UCX_"})
    void shouldNameAnOptionThatIsWrong(String option, String value, String message) {
        TransportException e = failure(config().option(option, value));
        assertThat(e).hasMessageContaining(message);
        assertThat(e.problem()).isIn(Problem.ARGUMENT, Problem.UNAVAILABLE);
    }

    @ParameterizedTest
    @ValueSource(strings = {"nonsense", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:65536", "no host at all:80"})
    void shouldRefuseWhatIsNoAddress(String address) {
        try (Wire wire = open(config("tcp"))) {
            assertThatThrownBy(() -> wire.open(address)).isInstanceOf(TransportException.class);
        }
    }

    @Test
    void shouldRefuseMessagesThatAreTooLong() {
        try (Wire wire = open(config()); Wire to = open(config())) {
            Link link = wire.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, wire, to);
            assertThatThrownBy(() -> offer(link, new byte[wire.maxMessageLength()]))
                    .isInstanceOf(TransportException.class).hasMessageContaining("at most " + wire.maxMessageLength());
        }
    }

    @Test
    void shouldLeaveNoThreadAndNoFile() throws IOException {
        Set<String> files = shared();
        for (int i = 0; i < 3; i++) {
            try (Wire from = open(config()); Wire to = open(config())) {
                Link link = from.open(to.address());
                await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            }
        }
        assertThat(threads("async")).as("threads of UCX").isZero();
        assertThat(shared()).isEqualTo(files);
    }

    private static Set<String> shared() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/dev/shm"))) {
            return all.map(Path::toString).filter(name -> name.contains("ucx"))
                    .collect(Collectors.toCollection(TreeSet::new));
        }
    }

    private static long threads(String name) throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/task"))) {
            return all.filter(task -> {
                try {
                    return Files.readString(task.resolve("comm")).strip().equals(name);
                } catch (IOException e) {
                    return false; // Ended meanwhile.
                }
            }).count();
        }
    }

    @Test
    void shouldNotMeetAnotherWireOfThisProcess() {
        try (Wire from = open(config()); Wire to = open(config()); Wire other = open(config())) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> {
                other.poll((buffer, offset, length) -> {
                    throw new AssertionError("not meant for this one");
                }, 4);
                int[] received = {0};
                to.poll((buffer, offset, length) -> received[0]++, 4);
                return received[0] == 1 || offer(link, new byte[4]) == Wire.CLOSED;
            }, from);
        }
    }
}
