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
import org.junit.jupiter.params.provider.ValueSource;

/** Writes by the network itself into memory of peers; here UCX emulates them. */
@Timeout(60)
class UcxWritesTest {
    @BeforeEach
    void findLibrary() {
        assumeTrue(new UcxWireProvider().availability() instanceof Availability.Ready,
                "UCX (libucp.so.0) is not installed here");
    }

    private static TransportConfig config() {
        return TransportConfig.of("ucx", Secret.ofText("sixteen bytes or more")).option("writes", "network");
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
    @ValueSource(strings = {"tcp", "sm,self"})
    void survivesAKilledPeer(String tls) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls);
        try (Wire wire = open(config(tls)); Wire other = open(config(tls)); Arena arena = Arena.ofShared()) {
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
    @ValueSource(strings = {"tcp", "sm,self"})
    void writesIntoThePeersMemory(String tls) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls);
        try (Wire wire = open(config(tls)); Arena arena = Arena.ofShared()) {
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
    @ValueSource(strings = {"tcp", "sm,self"})
    void writesInBothDirectionsConcurrently(String tls) {
        try (Wire left = open(config(tls)); Wire right = open(config(tls)); Arena arena = Arena.ofShared()) {
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

    @Test
    void closesWithMemoryStillRegistered() {
        RemoteWrites.Registration late;
        try (Wire wire = open(config()); Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(1 << 20);
            ((RemoteWrites) wire).register(memory).close();
            late = ((RemoteWrites) wire).register(memory);
            assertThat(late.key()).hasSizeBetween(1, RemoteWrites.MAX_KEY_LENGTH);
        }
        late.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 15, 16, 17, 100, 513})
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
