package dev.starling.distributed.collective.network;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.WireProvider.Availability;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The network algorithms over real networks: UDP packets, and writes over TCP, by UCX and without it. */
@Timeout(60)
class WiresCollectivesTest {
    private static final Duration SOON = Duration.ofSeconds(20);
    /** Number of pieces of each rank's chunk: more than a rank has slots for, even in a ring of two. */
    private static final int PIECES = Ring.SLOTS + 1;
    /** Elements of a last piece, just too many to belong to the piece before. */
    private static final int SHORT = Ring.REMAINDER / 4 + 33;

    private static Cluster cluster(String provider, int world) {
        Availability there = Transport.providers().get(provider).availability();
        assumeTrue(there instanceof Availability.Ready, () -> "no " + provider + " here: " + there);
        TransportConfig config = TransportConfig.of(provider, Secret.random()).sharedMemory(false);
        return new Cluster(provider.equals("ucx") ? config.option("tls", "tcp") : config, world,
                Coordinator.OnLoss.END);
    }

    /**
     * Sizes for the gather, for halving between three or more ranks, and for the ring, whose only piece is followed by
     * the longest remainder, and whose last piece is short.
     */
    @ParameterizedTest
    @CsvSource({"aeron, 3", "aeron, 4", "tcp, 2", "tcp, 3", "ucx, 2", "ucx, 3", "ucx, 4"})
    void runsAllKinds(String provider, int world) {
        NetworkCollectivesTest.runAllKinds(cluster(provider, world), world, 7, HalvingDoubling.MAX_BYTES / 4 - 3,
                world * (Ring.PIECE + Ring.REMAINDER) / 4, (PIECES - 1) * world * (Ring.PIECE / 4) + SHORT * world + 1);
    }

    @ParameterizedTest
    @CsvSource({"aeron, 3", "tcp, 3", "ucx, 3", "ucx, 4"})
    void roundsSumsOfShortFloatsOnce(String provider, int world) {
        NetworkCollectivesTest.roundOnce(cluster(provider, world), world,
                ((PIECES - 1) * (Ring.PIECE / 4) + SHORT) * world);
    }

    /** Pieces arrive before a rank begins and while it works; some are written to slots, others reduced directly. */
    @ParameterizedTest
    @CsvSource({"aeron, 3", "tcp, 2", "ucx, 2", "ucx, 3"})
    void reducesPiecesThatArriveBeforeARankBegins(String provider, int world) {
        cluster(provider, world).run(group -> {
            SplittableRandom random = new SplittableRandom(group.rank());
            int count = world * (Ring.PIECE / 4);
            try (SymmetricBuffer buffer = group.collectives().symmetric(4L * count)) {
                Work work = group.collectives().prepareAllReduce(buffer, 0, count, DType.I32, ReduceOp.SUM, "late");
                for (int round = 0; round < 60; round++) {
                    fill(group, buffer, count, round);
                    long until = System.nanoTime() + random.nextLong(2_000_000);
                    group.await(() -> System.nanoTime() >= until, SOON);
                    work.run(SOON);
                    check(group, buffer, 0, count, round);
                }
            }
            return null;
        });
    }

    /** A rank stalls, and its predecessors must hold back pieces for which it has no slots. */
    @ParameterizedTest
    @CsvSource({"aeron, 3", "tcp, 3", "ucx, 3", "ucx, 4"})
    void holdsBackPiecesWithoutSlots(String provider, int world) {
        cluster(provider, world).run(group -> {
            int chunk = 4 * PIECES * (Ring.PIECE / 4);
            try (SymmetricBuffer buffer = group.collectives().symmetric(4L * chunk * world)) {
                for (int round = 0; round < 3; round++) {
                    fill(group, buffer, chunk * world, round);
                    group.collectives().barrier().await(SOON);
                    Work work = group.collectives().reduceScatter(buffer, 0, (long) chunk * world, DType.I32,
                            ReduceOp.SUM);
                    if (group.rank() == round % world) {
                        group.locked(() -> LockSupport.parkNanos(100_000_000));
                    }
                    work.await(SOON);
                    check(group, buffer, chunk * group.rank(), chunk, round);
                }
            }
            return null;
        });
    }

    private static void fill(Group group, SymmetricBuffer buffer, int count, int round) {
        for (int i = 0; i < count; i++) {
            buffer.memory().setAtIndex(ValueLayout.JAVA_INT, i, (group.rank() + 1) * i + round);
        }
    }

    private static void check(Group group, SymmetricBuffer buffer, int from, int count, int round) {
        int world = group.world();
        for (int i = from; i < from + count; i++) {
            int expected = world * (world + 1) / 2 * i + world * round;
            int got = buffer.memory().getAtIndex(ValueLayout.JAVA_INT, i);
            if (got != expected) {
                throw new AssertionError("[" + i + "] in round " + round + ": " + got + " instead of " + expected);
            }
        }
    }
}
