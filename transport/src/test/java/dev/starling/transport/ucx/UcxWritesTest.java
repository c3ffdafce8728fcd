package dev.starling.transport.ucx;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Writes of UCX into memory of peers: by the network itself, or as messages. */
@Timeout(60)
class UcxWritesTest {
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
        return new UcxWireProvider().open(config.wire());
    }

    /** Sends this wire's address to the peer, and returns the key that the peer answers. */
    static byte[] meet(Wire wire, Link link) {
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
    @CsvSource({"tcp,network", "'sm,self',network", "tcp,messages", "'sm,self',messages", "all,messages"})
    void survivesAKilledPeer(String tls, String writes) throws Exception {
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

    @ParameterizedTest
    @CsvSource({"tcp,network", "'sm,self',network", "tcp,messages", "'sm,self',messages", "all,messages"})
    void writesIntoThePeersMemory(String tls, String writes) throws Exception {
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
                // The peer answers with the contents of its memory.
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
    void writesInBothDirectionsConcurrently(String tls, String writes) {
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
    void deliversMessagesAfterEarlierWrites(String tls) {
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
                int[] notified = {0};
                int[] written = {0};
                await(() -> {
                    int round = sent[0];
                    // The next put waits until the target has been checked.
                    if (round < rounds && notified[0] == round) {
                        if (sources[round] == null) {
                            sources[round] = arena.allocate(bytes).fill((byte) (round + 1));
                            RemoteWrites.Completion count = (tag, done) -> written[0] += done ? 1 : 0;
                            boolean together = round % 3 != 0;
                            assertThat(together ? writer.putAndSend(0, sources[round], count, 0,
                                    new UnsafeBuffer(new byte[] {7, 7, 7, 7, 7, 7, 7, 7, (byte) round}), 0, 9)
                                    : writer.put(0, sources[round], count, 0)).isEqualTo(Wire.SENT);
                            sent[0] += together ? 1 : 0;
                        }
                        sent[0] += sent[0] == round && offer(link, new byte[] {(byte) round}) == Wire.SENT ? 1 : 0;
                    }
                    to.poll((buffer, offset, length) -> {
                        if (length == 9) {
                            assertThat(buffer.getByte(offset + 8)).isEqualTo((byte) notified[0]++);
                            assertThat(target.mismatch(sources[notified[0] - 1])).isEqualTo(-1);
                        }
                    }, 4);
                    return written[0] == rounds && notified[0] == rounds;
                }, from);
            }
        }
    }

    @Test
    void endsALinkThatWritesOutsideOfRegisteredMemory() {
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

    @Test
    void propagatesAnInterceptorsExceptionAndEndsTheLinkOfTheWriter() {
        TransportConfig config = config("tcp").option("writes", "messages");
        try (Wire from = open(config); Wire to = open(config); Arena arena = Arena.ofShared()) {
            Link link = from.open(to.address());
            Link lasting = to.open(from.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
            RemoteWrites.Registration registration = ((RemoteWrites) to).register(arena.allocate(100));
            registration.onWrite((offset, address, length) -> {
                throw new StackOverflowError("thrown by the interceptor");
            });
            Boolean[] written = new Boolean[1];
            ((RemoteWrites) from).attach(link, registration.key()).put(0, arena.allocate(100),
                    (tag, success) -> written[0] = success, 0);
            assertThatThrownBy(() -> await(() -> written[0] != null, from, to))
                    .isInstanceOf(StackOverflowError.class).hasMessage("thrown by the interceptor");
            await(() -> written[0] != null, from, to);
            assertThat(written[0]).isFalse();
            assertThat(offer(link, new byte[4])).isEqualTo(Wire.CLOSED);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"network", "messages"})
    void closesWithMemoryStillRegistered(String writes) {
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
    void refusesMalformedKeys(int length) {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            assertThatThrownBy(() -> ((RemoteWrites) from).attach(link, new byte[length]))
                    .isInstanceOf(TransportException.class)
                    .hasMessageContaining("these " + length + " bytes are not a key");
        }
    }
}
