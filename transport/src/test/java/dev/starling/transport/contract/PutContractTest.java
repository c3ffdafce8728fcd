package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.FrameForge;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.TransportException;
import dev.starling.transport.contract.Cluster.Connection;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** What every transport does with writes into a peer's memory. */
@Timeout(60)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#all")
class PutContractTest {
    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    private static MemoryRegion filled(Connection c, long bytes, long seed) {
        MemoryRegion region = c.a().transport.register(bytes);
        byte[] noise = new byte[(int) bytes];
        new SplittableRandom(seed).nextBytes(noise);
        MemorySegment.copy(noise, 0, region.memory(), ValueLayout.JAVA_BYTE, 0, noise.length);
        return region;
    }

    @Test
    void writesAnyNumberOfBytesAndCompletesOnBothSides() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            int piece = FrameForge.pieceLength(c.toB());
            long largest = 5 << 20;
            MemoryRegion source = filled(c, largest + 64, 4);
            MemoryRegion target = c.b().transport.register(largest + 64);
            RemoteRegion remote = c.open(target);
            assertThat(remote.bytes()).isEqualTo(largest + 64);
            assertThat(remote.memory() != null).isEqualTo(setting.sharedMemory() && !setting.isSimulated());
            long immediate = 1L << 40;
            for (long bytes : new long[] {0, 1, 72, piece - 1, piece, piece + 1, largest}) {
                for (long offset : new long[] {0, 7}) {
                    target.memory().fill((byte) 0);
                    boolean[] done = new boolean[1];
                    long expected = ++immediate;
                    c.b().transport.onPut((from, value) -> {
                        assertThat(from).isSameAs(c.toA());
                        assertThat(value).isEqualTo(expected);
                        c.b().notified.add(value);
                        assertThat(MemorySegment.mismatch(source.memory(), 3, 3 + bytes, target.memory(), offset,
                                offset + bytes)).as("data when notified").isEqualTo(-1);
                    });
                    assertThat(c.toB().putAndNotify(source, 3, remote, offset, bytes, expected, ok -> done[0] = ok))
                            .isEqualTo(Endpoint.OK);
                    cluster.await(() -> done[0] && c.b().notified.contains(expected), "a put of " + bytes);
                    assertThat(zeros(target.memory(), 0, offset)).isTrue();
                    assertThat(zeros(target.memory(), offset + bytes, target.bytes())).isTrue();
                }
            }
            remote.close();
        }
    }

    private static boolean zeros(MemorySegment memory, long from, long to) {
        for (long i = from; i < to; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return false;
            }
        }
        return true;
    }

    @Test
    void sourceMayChangeOnceItWasSent() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            long bytes = 5 << 20;
            MemoryRegion source = filled(c, bytes, 7);
            MemoryRegion expected = filled(c, bytes, 7);
            MemoryRegion target = c.b().transport.register(bytes);
            RemoteRegion remote = c.open(target);
            for (long half = 0; half < bytes; half += bytes / 2) {
                assertThat(c.toB().putAndNotify(source, half, remote, half, bytes / 2, 1 + half, null))
                        .isEqualTo(Endpoint.OK);
            }
            assertThat(c.toB().putCount()).isEqualTo(2);
            cluster.await(() -> c.toB().hasSent(2, source), "the puts to be sent");
            source.memory().fill((byte) 0);
            cluster.await(() -> c.b().notified.contains(1 + bytes / 2), "the second put");
            assertThat(target.memory().mismatch(expected.memory())).isEqualTo(-1);
            assertThat(c.toB().hasSent(3, source)).as("a put that has not begun").isFalse();
            remote.close();
        }
    }

    @Test
    void losesOnlyAPeerWhoseAcknowledgementHoldsNoNumber() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Connection other = cluster.connect(cluster.member(), c.b());
            FrameForge.acknowledgeNothing(c.toB());
            cluster.await(() -> c.b().lost.contains(c.toA()), "the loss");
            assertThat(c.toA().reason()).contains("acknowledgement of 0 bytes");
            assertThat(other.toA().isConnected()).isTrue();
        }
    }

    @Test
    void offersArrivingDataToTheInterceptorAndWritesWhatItDoesNotConsume() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            long bytes = 3L * FrameForge.pieceLength(c.toB()) + 100;
            MemoryRegion source = filled(c, bytes, 6);
            MemoryRegion target = c.b().transport.register(bytes);
            RemoteRegion remote = c.open(target);
            boolean[] taken = new boolean[(int) bytes];
            long[] end = new long[1];
            target.onWrite((offset, address, length) -> {
                assertThat(offset).as("in order").isGreaterThanOrEqualTo(end[0]);
                end[0] = offset + length;
                MemorySegment came = MemorySegment.ofAddress(address).reinterpret(length);
                assertThat(MemorySegment.mismatch(came, 0, length, source.memory(), offset, end[0])).isEqualTo(-1);
                boolean takes = offset < bytes / 2;
                Arrays.fill(taken, (int) offset, (int) end[0], takes);
                return takes;
            });
            boolean[] done = new boolean[1];
            assertThat(c.toB().putAndNotify(source, 0, remote, 0, bytes, 1, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            cluster.await(() -> done[0] && c.b().notified.contains(1L), "a put of " + bytes);
            assertThat(end[0]).isLessThanOrEqualTo(bytes);
            for (int i = 0; i < bytes; i++) {
                byte right = taken[i] ? 0 : source.memory().get(ValueLayout.JAVA_BYTE, i);
                assertThat(target.memory().get(ValueLayout.JAVA_BYTE, i)).as("byte %d", i).isEqualTo(right);
            }
            remote.close();
        }
    }

    @Test
    void writesNothingMoreIfTheInterceptorClosesTheRegion() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            long bytes = 3L * FrameForge.pieceLength(c.toB());
            MemoryRegion source = filled(c, bytes, 6);
            MemoryRegion target = c.b().transport.register(bytes);
            RemoteRegion remote = c.open(target);
            target.onWrite((offset, address, length) -> {
                target.close();
                return false;
            });
            boolean[] done = new boolean[1];
            assertThat(c.toB().put(source, 0, remote, 0, bytes, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            cluster.await(() -> done[0], "a put of " + bytes);
            assertThat(c.toB().isConnected()).isTrue();
            remote.close();
        }
    }

    @Test
    void notifiesInTheOrderOfPutsEvenWithoutCompletions() {
        int count = 5_000;
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            MemoryRegion source = c.a().transport.register(8L * count);
            MemoryRegion target = c.b().transport.register(8L * count);
            RemoteRegion remote = c.open(target);
            for (int i = 0; i < count; i++) {
                source.memory().setAtIndex(ValueLayout.JAVA_LONG, i, i * 3L + 1);
            }
            c.b().transport.onPut((from, value) -> {
                assertThat(value).isEqualTo(c.b().notified.size());
                c.b().notified.add(value);
                for (long i = Math.max(0, value - 1); i <= value; i++) {
                    assertThat(target.memory().getAtIndex(ValueLayout.JAVA_LONG, i)).isEqualTo(i * 3 + 1);
                }
            });
            int[] next = new int[1];
            int[] backPressured = new int[1];
            cluster.await(() -> {
                while (next[0] < count) {
                    int i = next[0];
                    int code = i % 2 == 0 ? c.toB().put(source, 8L * i, remote, 8L * i, 8, null) : Endpoint.OK;
                    if (code == Endpoint.OK) {
                        code = c.toB().putAndNotify(source, 8L * i, remote, 8L * i, 8, i, null);
                    }
                    if (code != Endpoint.OK) {
                        assertThat(code).isEqualTo(Endpoint.BACK_PRESSURED);
                        backPressured[0]++;
                        break;
                    }
                    next[0]++;
                }
                return c.b().notified.size() == count;
            }, "all puts");
            assertThat(backPressured[0]).isPositive();
        }
    }

    @Test
    void refusesRangesOutsideOfARegionBeforeAnythingIsSent() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            MemoryRegion source = filled(c, 100, 5);
            MemoryRegion target = c.b().transport.register(50);
            RemoteRegion remote = c.open(target);
            long[][] wrong = {{0, 1, 50}, {0, 51, 0}, {0, -1, 1}, {51, 0, 50}, {-1, 0, 1}, {0, 0, -1}, {0, 40, 11},
                {Long.MAX_VALUE, 0, 1}, {0, Long.MAX_VALUE, 1}, {1, 1, Long.MAX_VALUE}};
            for (long[] w : wrong) {
                assertThatThrownBy(() -> c.toB().put(source, w[0], remote, w[1], w[2], null))
                        .isInstanceOf(TransportException.class).hasMessageContaining("range")
                        .hasMessageContaining("outside");
            }
            source.close();
            assertThatThrownBy(() -> c.toB().put(source, 0, remote, 0, 1, null)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("closed");
            cluster.work();
            assertThat(zeros(target.memory(), 0, 50)).isTrue();
            assertThat(c.toB().isConnected()).isTrue();
        }
    }

    @Test
    void expelsAPeerThatForgesAKey() {
        try (Cluster cluster = new Cluster(setting)) {
            Cluster.Member b = cluster.member();
            MemoryRegion target = b.transport.register(4096);
            RegionKey key = target.key();
            List<RegionKey> forged = List.of(
                    new RegionKey(key.region(), key.token() + 1, key.bytes(), 0, 0, new byte[0]),
                    new RegionKey(key.region() + 1, key.token(), key.bytes(), 0, 0, new byte[0]),
                    new RegionKey(key.region(), key.token(), 1 << 20, 0, 0, new byte[0]));
            Connection honest = cluster.connect(cluster.member(), b);
            for (int i = 0; i < forged.size(); i++) {
                Connection c = cluster.connect(cluster.member(), b);
                MemoryRegion source = filled(c, 8192, 6);
                RemoteRegion remote = c.toB().open(forged.get(i));
                assertThat(remote.memory()).isNull();
                List<Boolean> outcomes = new ArrayList<>();
                assertThat(c.toB().put(source, 0, remote, i == 2 ? 4090 : 0, 100, outcomes::add))
                        .isEqualTo(Endpoint.OK);
                cluster.await(() -> !outcomes.isEmpty() && b.lost.contains(c.toA()), "the refusal");
                assertThat(outcomes).containsExactly(false);
                assertThat(c.toA().state()).isEqualTo(Endpoint.State.LOST);
                assertThat(c.toA().reason()).contains("wrote");
                assertThat(c.toB().state()).isEqualTo(Endpoint.State.LOST);
                assertThat(c.toB().reason()).contains("ended the connection").contains("wrote");
                assertThat(b.transport.counters().refusedWrites()).isEqualTo(i + 1);
            }
            assertThat(zeros(target.memory(), 0, 4096)).isTrue();
            assertThat(honest.toB().isConnected()).isTrue();
            assertThat(honest.toA().isConnected()).isTrue();
        }
    }

    @Test
    void doesNotMapMemoryWithAForgedToken() {
        assumeTrue(setting.sharedMemory() && !setting.isSimulated(), "without shared memory nothing is mapped");
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            RegionKey key = c.b().transport.register(4096).key();
            for (RegionKey forged : List.of(
                    new RegionKey(key.region(), key.token() + 1, key.bytes(), key.process(), key.descriptor(),
                            key.remote()),
                    new RegionKey(key.region(), key.token(), 8192, key.process(), key.descriptor(), key.remote()),
                    new RegionKey(key.region(), key.token(), key.bytes(), key.process(), 0, key.remote()))) {
                assertThat(c.toB().open(forged).memory()).isNull();
            }
        }
    }

    @Test
    void failsPendingPutsWhenThePeerIsLost() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            MemoryRegion source = filled(c, 5 << 20, 7);
            RemoteRegion remote = c.toB().open(c.b().transport.register(5 << 20).key(), false);
            assertThat(remote.memory()).isNull();
            List<Boolean> outcomes = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                assertThat(c.toB().put(source, 0, remote, 0, 5 << 20, outcomes::add)).isEqualTo(Endpoint.OK);
            }
            c.b().close();
            cluster.await(() -> outcomes.size() == 20, "the outcomes");
            assertThat(outcomes).contains(false);
            assertThat(c.toB().put(source, 0, remote, 0, 1, null)).isEqualTo(Endpoint.CLOSED);
        }
    }

    @Test
    void failsPutsThatHaveNotBegunWhenTheirTargetIsClosed() {
        assertThat(closeTheTargetOfManyPuts(setting)).contains(false);
    }

    /** Returns the outcomes of puts, some of which have begun, whose target is closed; later puts arrive. */
    static List<Boolean> closeTheTargetOfManyPuts(Setting setting) {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            int bytes = 4 << 20;
            int count = 60;
            MemoryRegion source = filled(c, bytes, 9);
            MemoryRegion target = c.b().transport.register(bytes);
            RemoteRegion closed = c.toB().open(target.key(), false);
            RemoteRegion open = c.toB().open(target.key(), false);
            List<Boolean> outcomes = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                assertThat(c.toB().putAndNotify(source, 0, closed, 0, bytes, i, outcomes::add)).isEqualTo(Endpoint.OK);
            }
            boolean[] last = new boolean[1];
            assertThat(c.toB().putAndNotify(source, 0, open, 0, bytes, count, ok -> last[0] = ok))
                    .isEqualTo(Endpoint.OK);
            closed.close();
            closed.close();
            assertThatThrownBy(() -> c.toB().put(source, 0, closed, 0, 1, null)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("target is closed");
            int failed = outcomes.size();
            assertThat(outcomes).as("when the target is closed").doesNotContain(true);
            cluster.await(() -> last[0] && outcomes.size() == count, "the outcomes");
            // Every notified put has its data, and there is no notification of a failed one.
            assertThat(outcomes.subList(failed, count)).doesNotContain(false);
            assertThat(c.b().notified).hasSize(count - failed + 1).isSorted().endsWith((long) count);
            assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
            assertThat(c.toB().isConnected() && c.toA().isConnected()).isTrue();
            open.close();
            return outcomes;
        }
    }

    @Test
    void dropsWritesIntoARegionThatHasJustBeenClosed() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            MemoryRegion source = filled(c, 100, 8);
            MemoryRegion target = c.b().transport.register(100);
            List<RemoteRegion> remotes = List.of(c.toB().open(target.key(), false), c.open(target));
            target.close();
            List<Boolean> outcomes = new ArrayList<>();
            for (RemoteRegion remote : remotes) {
                assertThat(c.toB().put(source, 0, remote, 0, 100, outcomes::add)).isEqualTo(Endpoint.OK);
                assertThat(c.toB().putAndNotify(source, 0, remote, 0, 100, 5, outcomes::add)).isEqualTo(Endpoint.OK);
            }
            cluster.await(() -> outcomes.size() == 4, "the outcomes");
            // The owner closed the region before the peer could know: this violates no rule, and the puts complete.
            assertThat(outcomes).containsOnly(true);
            assertThat(c.b().notified).isEmpty();
            assertThat(c.toB().isConnected() && c.toA().isConnected()).isTrue();
        }
    }
}
