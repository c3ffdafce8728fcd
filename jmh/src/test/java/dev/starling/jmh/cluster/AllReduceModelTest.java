package dev.starling.jmh.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class AllReduceModelTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.random());
    /** Of a simulated network: 20 µs and half of 2 µs of jitter, and 2 GB/s. */
    private static final AllReduceModel SIMULATED = AllReduceModel.of(AllReduceModel.link(21_000, 2));

    /** Returns the virtual nanoseconds of all-reduces of some sizes among simulated ranks. */
    private static double[] simulate(int ranks, int... sizes) {
        long[] begins = new long[sizes.length];
        long[] ends = new long[sizes.length];
        try (Simulation simulation = Simulation.of(ranks).operationTime(Duration.ofNanos(1))) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), CONFIG),
                        ranks, Coordinator.OnLoss.END, 1, TIMEOUT)) {
                    coordinator.run(TIMEOUT);
                }
            });
            for (int rank = 0; rank < ranks; rank++) {
                String name = "rank" + rank;
                GroupConfig membership = GroupConfig.of(null, "coordinator").preferredRank(rank).host(name);
                simulation.start(name, () -> {
                    try (Group group = Group.join(Transport.over(simulation.wire(name), CONFIG), membership, false);
                            SymmetricBuffer buffer = group.collectives().symmetric(Arrays.stream(sizes).max()
                                    .orElseThrow())) {
                        for (int i = 0; i < sizes.length; i++) {
                            group.collectives().barrier().await(TIMEOUT);
                            begins[i] = Math.max(begins[i], simulation.nanoTime());
                            group.collectives().allReduce(buffer, 0, sizes[i] / 4, DType.F32, ReduceOp.SUM)
                                    .await(TIMEOUT);
                            ends[i] = Math.max(ends[i], simulation.nanoTime());
                        }
                        group.collectives().barrier().await(TIMEOUT);
                    }
                });
            }
            simulation.run(TIMEOUT);
        }
        double[] nanos = new double[sizes.length];
        Arrays.setAll(nanos, i -> ends[i] - begins[i]);
        return nanos;
    }

    @Test
    void predictsTheTimesOfASimulatedNetwork() {
        int[] sizes = {1 << 10, 64 << 10, 1 << 20, 8 << 20};
        for (int ranks : new int[] {2, 4, 6, 16, 40}) {
            double[] nanos = simulate(ranks, sizes);
            for (int i = 0; i < sizes.length; i++) {
                double predicted = SIMULATED.nanos(ranks, sizes[i]);
                assertThat(predicted / nanos[i]).as("%s ranks, %s bytes: predicted %s ns instead of %s", ranks,
                        sizes[i], predicted, nanos[i]).isCloseTo(1, within(0.05));
            }
        }
    }

    @Test
    void interpolatesMeasurements() {
        AllReduceModel.Hop hop = new AllReduceModel.Measured(new double[] {100, 200, 400}, new double[] {10, 20, 80});
        assertThat(hop.nanos(1)).isEqualTo(10);
        assertThat(hop.nanos(150)).isEqualTo(15);
        assertThat(hop.nanos(300)).isEqualTo(50);
        assertThat(hop.nanos(500)).isEqualTo(110);
    }

    @Test
    void aProcessorReceivesAPacketWhileAnotherSendsTheNext() {
        double first = 1_000;
        double packet = 64 << 10;
        AllReduceModel.Hop hop = new AllReduceModel.Measured(new double[] {0, 4 * packet},
                new double[] {first, first + 4 * packet});
        assertThat(hop.oneWayNanos(packet / 2)).isEqualTo(first + packet / 2);
        assertThat(hop.oneWayNanos(packet)).isEqualTo(first + packet);
        // Sending takes half of a packet's time: four are sent in two, and the last is received half a packet later.
        assertThat(hop.oneWayNanos(4 * packet)).isEqualTo(first + 2.5 * packet);
        // The third rank sends all elements to the second, which returns the sum of all.
        assertThat(AllReduceModel.of(hop).nanos(3, 4 * packet))
                .isEqualTo(2 * hop.oneWayNanos(4 * packet) + 2 * hop.nanos(2 * packet));
    }

    @Test
    void ranksThatShareProcessorsTakeTurnsAndWaitForThem() {
        AllReduceModel apart = AllReduceModel.of(AllReduceModel.link(10, 1));
        assertThat(apart.nanos(4, 100)).isEqualTo(110 + 210);
        AllReduceModel two = new AllReduceModel(apart.hop(), 2, 7, 1);
        assertThat(two.nanos(4, 200)).isEqualTo(2 * (210 + 410) + 14);
        // Two ranks have a processor each, and three take as long as four, of which two share each processor.
        assertThat(two.nanos(2, 100)).isEqualTo(110);
        assertThat(two.nanos(3, 100)).isEqualTo(2 * (110 + 110) + 14);
        assertThat(two.nanos(4, 100 << 10)).isEqualTo(4 * 7 + 2 * apart.nanos(4, 100 << 10));
        assertThat(two.nanos(4, 1 << 20)).isEqualTo(6 * 2 * 7 + 2 * apart.nanos(4, 1 << 20));
        // Only the first two of three ranks exchange all elements, before and after the halves; the third polls.
        assertThat(two.nanos(3, 100 << 10)).isEqualTo(4 * 7 + apart.nanos(3, 100 << 10));
    }

    @Test
    void bytesTakeLongerWhereRanksTakeTurns() {
        AllReduceModel.Hop hop = AllReduceModel.link(10, 1);
        AllReduceModel slow = new AllReduceModel(hop, 2, 0, 3);
        assertThat(slow.nanos(4, 100)).isEqualTo(2 * (310 + 610));
        assertThat(slow.nanos(2, 100)).isEqualTo(110);
        assertThat(slow.nanos(4, 4 << 20)).isEqualTo(6 * 2 * (3 << 20) + 2 * 10);
        // Pieces of a ring overlap, so three ranks take one and a half times as long, not twice.
        assertThat(slow.nanos(3, 3 << 20)).isEqualTo(4 * 1.5 * (3 << 20) + 1.5 * 10);
    }

    @Test
    void measurementsCalibrateWaitAndSlowdown() {
        AllReduceModel apart = AllReduceModel.of(AllReduceModel.link(10, 1));
        AllReduceModel given = new AllReduceModel(apart.hop(), 2, 7, 1.25);
        AllReduceModel found = apart.sharing(2, 4, new AllReduceModel.Sum(100, given.nanos(4, 100)),
                new AllReduceModel.Sum(1 << 20, given.nanos(4, 1 << 20)));
        assertThat(found.waitNanos()).isCloseTo(7, within(1e-6));
        assertThat(found.slowdown()).isCloseTo(1.25, within(1e-6));
    }

    @Test
    void sharedProcessorsCostNothingWhereEachRankHasOne() {
        AllReduceModel apart = AllReduceModel.of(AllReduceModel.link(10, 1));
        AllReduceModel.Sum slow = new AllReduceModel.Sum(100, 5_000);
        assertThat(apart.sharing(8, 4, slow, slow)).isEqualTo(new AllReduceModel(apart.hop(), 8, 0, 1));
    }
}
