package dev.starling.distributed.collective.network;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.Simulation;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** All algorithms under faults drawn from seeds: every result is correct, and no rank waits forever. */
class SimulatedCollectivesTest {
    private static final Duration HORIZON = Duration.ofMillis(300);
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Secret SECRET = Secret.ofText("a secret of simulated processes");
    /** Sizes for the gather, for halving, and for the ring. */
    private static final int[] COUNTS = {100, HalvingDoubling.MAX_BYTES / 8 + 3, HalvingDoubling.MAX_BYTES / 4 + 9};
    private static final int ROUNDS = 6;
    private static final int SCHEDULES = 60;

    @Test
    void reducesCorrectlyOrFailsUnderAllFaults() {
        int whole = 0;
        for (long seed = 1; seed <= SCHEDULES; seed++) {
            List<String> names = new ArrayList<>(List.of("coordinator"));
            for (int rank = 0; rank < 3 + seed % 4; rank++) {
                names.add("rank" + rank);
            }
            FaultPlan plan = seed % 5 == 0 ? FaultPlan.none(seed, names) : FaultPlan.random(seed, names, HORIZON);
            Map<String, String> ends = run(plan);
            assertThat(ends).as("%s", plan).hasSize(names.size() - 1);
            whole += ends.values().stream().allMatch("done"::equals) ? 1 : 0;
        }
        assertThat(whole).as("schedules that finished").isGreaterThanOrEqualTo(SCHEDULES / 5);
    }

    private static Map<String, String> run(FaultPlan plan) {
        Map<String, String> ends = new TreeMap<>();
        int world = plan.ranks().size() - 1;
        try (Simulation simulation = Simulation.of(plan)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                        config()), world, Coordinator.OnLoss.END, 1, TIMEOUT)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int r = 0; r < world; r++) {
                String name = "rank" + r;
                GroupConfig membership = GroupConfig.of(null, "coordinator").preferredRank(r).host(name)
                        .joinTimeout(TIMEOUT).timeout(TIMEOUT);
                ends.put(name, "crashed");
                simulation.start(name, () -> {
                    try (Group group = Group.join(Transport.over(simulation.wire(name), config()), membership, false)) {
                        reduce(group);
                        ends.put(name, "done");
                    } catch (DistributedException | TransportException e) {
                        ends.put(name, e.getMessage());
                    }
                });
            }
            simulation.run(LIMIT);
        }
        return ends;
    }

    private static TransportConfig config() {
        return TransportConfig.of("simulated", SECRET).livenessTimeout(Duration.ofMillis(100));
    }

    private static void reduce(Group group) {
        int maxCount = Arrays.stream(COUNTS).max().orElseThrow();
        try (SymmetricBuffer buffer = group.collectives().symmetric(4L * maxCount)) {
            MemorySegment memory = buffer.memory();
            for (int round = 0; round < ROUNDS; round++) {
                for (int count : COUNTS) {
                    for (int i = 0; i < count; i++) {
                        memory.setAtIndex(ValueLayout.JAVA_INT, i, (group.rank() + 1) * (i + round));
                    }
                    group.collectives().allReduce(buffer, 0, count, DType.I32, ReduceOp.SUM).await(TIMEOUT);
                    int ranks = group.world() * (group.world() + 1) / 2;
                    for (int i = 0; i < count; i++) {
                        if (memory.getAtIndex(ValueLayout.JAVA_INT, i) != ranks * (i + round)) {
                            throw new AssertionError("[" + i + "] of " + count + " in round " + round + " on rank "
                                    + group.rank() + ": " + memory.getAtIndex(ValueLayout.JAVA_INT, i));
                        }
                    }
                }
            }
            group.collectives().barrier().await(TIMEOUT);
        }
    }
}
