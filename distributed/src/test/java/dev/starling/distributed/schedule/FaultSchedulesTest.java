package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.distributed.schedule.Schedule.Outcome;
import dev.starling.nn.train.DistributionStrategy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Every strategy under many fault plans, each drawn from a seed: loss, delay, cuts, pauses and crashes of workers and
 * of the coordinator. No run hangs, a failed process names the cause, and the surviving processes agree. A test failure
 * prints the plan, which reproduces the run.
 */
class FaultSchedulesTest {
    /** Smallest number of workers; with eight or more, and the property {@code schedules.mesh}, some are not linked. */
    private static final int WORKERS = Integer.getInteger("schedules.workers", 2);

    private static void run(Sweep sweep, OnLoss onLoss, Function<Group, DistributionStrategy> strategy,
            Consumer<Map<String, Outcome>> invariants) {
        LongAdder restarted = new LongAdder();
        int ended = sweep.run(seed -> WORKERS + (int) (seed % 3), plan -> {
            Schedule schedule = Schedule.run(plan, onLoss, strategy);
            invariants.accept(schedule.outcomes());
            Sweep.assertExplained(schedule);
            Sweep.assertJustified(schedule);
            restarted.add(schedule.outcomes().values().stream().filter(o -> o.isRestarted() && o.ended).count());
            return Sweep.assertFinished(schedule, onLoss == OnLoss.REFORM, o -> o.joined && !o.isRestarted());
        });
        assertThat(ended).as("ranks that had to finish").isGreaterThanOrEqualTo(sweep.count() / 3);
        if (onLoss == OnLoss.REFORM) {
            assertThat(restarted.sum()).as("ranks that crashed, were restarted and finished")
                    .isGreaterThanOrEqualTo(sweep.count() / 200);
        }
    }

    /**
     * As {@link Sweep#assertSameWeights}, for survivors only: an excluded rank may have taken its last steps without
     * them.
     */
    private static void assertSurvivorsHaveSameWeights(Map<String, Outcome> outcomes) {
        Map<String, Outcome> survivors = new HashMap<>(outcomes);
        survivors.values().removeIf(o -> !o.ended);
        Sweep.assertSameWeights(survivors);
    }

    private static DistributionStrategy ring(Group group) {
        return RingAllReduce.over(group).build();
    }

    private static DistributionStrategy elasticRing(Group group) {
        return RingAllReduce.over(group).elastic().build();
    }

    /** Of a group that re-forms by majority: it survives its coordinator, and never divides into two. */
    private static void runByMajority(Sweep sweep, Function<Group, DistributionStrategy> strategy,
            Consumer<Map<String, Outcome>> invariants) {
        LongAdder survivals = new LongAdder();
        sweep.run(seed -> 2 + (int) (seed % 4), plan -> {
            Schedule schedule = Schedule.runByMajority(plan, strategy);
            invariants.accept(schedule.outcomes());
            Sweep.assertExplained(schedule);
            ExpectedEffects effects = schedule.effects();
            // A process that has lost only the coordinator before the first epoch cannot join.
            if (effects.isFairToRanks() && schedule.outcomes().values().stream().allMatch(o -> o.started)) {
                survivals.add(effects.isFair() ? 0 : 1);
                schedule.outcomes().values().forEach(o -> assertThat(o.ended).as(() -> o.name + " finishes whatever"
                        + " happens to the coordinator" + schedule.describe()).isTrue());
            }
            return 1;
        });
        assertThat(survivals.sum()).as("runs that survived faults of the coordinator")
                .isGreaterThanOrEqualTo(sweep.count() / 100);
    }

    private static void assertOneGroupWithTheSameWeights(Map<String, Outcome> outcomes) {
        Sweep.assertOneGroup(outcomes);
        Sweep.assertSameWeightsInEachEpoch(outcomes);
    }

    @Test
    void reducesByMajority() {
        runByMajority(Sweep.few(114, 153, 840, 983, 1447, 1540, 1848), FaultSchedulesTest::elasticRing,
                FaultSchedulesTest::assertOneGroupWithTheSameWeights);
    }

    @Test
    @Tag("stress")
    void reducesByMajorityForLong() {
        runByMajority(Sweep.many(), FaultSchedulesTest::elasticRing,
                FaultSchedulesTest::assertOneGroupWithTheSameWeights);
    }

    @Test
    @Tag("stress")
    void gossipsByMajorityForLong() {
        runByMajority(Sweep.many(), Gossip::of, Sweep::assertFinite);
    }

    @Test
    void gossips() {
        run(Sweep.some(1306, 2783, 4097, 4682, 6065, 6399), OnLoss.REFORM, Gossip::of, Sweep::assertFinite);
    }

    @Test
    @Tag("stress")
    void gossipsForLong() {
        run(Sweep.many(), OnLoss.REFORM, Gossip::of, Sweep::assertFinite);
    }

    @Test
    void reduces() {
        run(Sweep.some(3008, 4097, 5120, 7682), OnLoss.END, FaultSchedulesTest::ring, Sweep::assertSameWeights);
    }

    @Test
    @Tag("stress")
    void reducesForLong() {
        run(Sweep.many(), OnLoss.END, FaultSchedulesTest::ring, Sweep::assertSameWeights);
    }

    @Test
    void reducesElastically() {
        run(Sweep.some(4097), OnLoss.REFORM, FaultSchedulesTest::elasticRing,
                FaultSchedulesTest::assertSurvivorsHaveSameWeights);
    }

    @Test
    @Tag("stress")
    void reducesElasticallyForLong() {
        run(Sweep.many(), OnLoss.REFORM, FaultSchedulesTest::elasticRing,
                FaultSchedulesTest::assertSurvivorsHaveSameWeights);
    }
}
