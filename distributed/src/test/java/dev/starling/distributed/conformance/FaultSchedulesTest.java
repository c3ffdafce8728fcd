package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.distributed.codec.PowerSgd;
import dev.starling.distributed.codec.TopK;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.train.DistributionStrategy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
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
    private static final StrategyConformance GOSSIP = StrategyConformance.of(Gossip::of).elastic();
    private static final StrategyConformance RING = StrategyConformance.of(group -> RingAllReduce.over(group).build())
            .refuses(group -> RingAllReduce.over(group).halfPrecision().build());
    private static final long MAX_LATE_STEPS = 2;
    private static final StrategyConformance ELASTIC_RING = StrategyConformance
            .of(group -> RingAllReduce.over(group).elastic().build()).elastic();
    private static final StrategyConformance OWN = StrategyConformance.of(OwnElasticStrategy::new).elastic();

    private static StrategyConformance compressed(GradientCodec codec) {
        Function<Group, RingAllReduce.Builder> ring = group -> RingAllReduce.over(group).bucketBytes(512).elastic();
        return StrategyConformance.of(group -> ring.apply(group).codec(codec).build()).elastic().inexact()
                .refuses(group -> ring.apply(group).build());
    }

    private static void run(Sweep sweep, StrategyConformance conformance, boolean elastic) {
        StrategyConformance.Report report = sweep.run(conformance);
        assertThat(report.schedules()).isEqualTo(sweep.count());
        assertThat(report.finished()).as("ranks that had to finish").isGreaterThanOrEqualTo(sweep.count() / 3);
        if (elastic) {
            assertThat(report.returned()).as("ranks that crashed, were restarted and finished")
                    .isGreaterThanOrEqualTo(sweep.count() / 200);
        }
    }

    /** Of a group that re-forms by majority: it survives its coordinator, and never divides into two. */
    private static void runByMajority(Sweep sweep, Function<Group, DistributionStrategy> strategy,
            Consumer<Map<String, Outcome>> invariants) {
        LongAdder survivals = new LongAdder();
        sweep.run(seed -> 2 + (int) (seed % 4), plan -> {
            Schedule schedule = Schedule.runByMajority(plan, strategy);
            invariants.accept(schedule.outcomes());
            Invariants.requireExplained(schedule);
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
                .isGreaterThanOrEqualTo(Math.max(1, sweep.count() / 200));
    }

    /**
     * Checks that no two groups trained at a time: an epoch has the same members for all, and after the first step of
     * an epoch no process takes more steps of an earlier epoch than it had all data for: the one that it was about to
     * end, and the next, for which a peer that has ended that step sends its gradients. All processes have the same
     * weights after a step of an epoch.
     */
    private static void assertOneGroup(Map<String, Outcome> outcomes) {
        Map<Long, List<String>> members = new HashMap<>();
        Map<Long, Long> begins = new TreeMap<>();
        outcomes.forEach((name, outcome) -> {
            outcome.membersByEpoch.forEach((epoch, those) -> assertThat(members.computeIfAbsent(epoch, _ -> those))
                    .as(() -> name + " in epoch " + epoch).isEqualTo(those));
            outcome.stepTimesByEpoch.forEach((epoch, times) -> begins.merge(epoch, times.getFirst(), Math::min));
        });
        outcomes.forEach((name, outcome) -> outcome.stepTimesByEpoch.forEach((epoch, times) -> begins.forEach(
                (later, begin) -> {
                    if (later > epoch) {
                        assertThat(times.stream().filter(time -> time > begin).count())
                                .as(() -> name + ": steps in epoch " + epoch + " after the begin of epoch " + later)
                                .isLessThanOrEqualTo(MAX_LATE_STEPS);
                    }
                })));
        // A process that returns drops the step that it took when the others had begun another epoch, where the sum of
        // the gradients is rounded differently.
        Map<List<Long>, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> outcome.weightsByEpochAndStep.forEach((step, weights) ->
                assertThat(weights).as(() -> name + " in epoch and after step " + step)
                        .isEqualTo(first.computeIfAbsent(step, _ -> weights))));
    }

    @Test
    void reducesByMajority() {
        runByMajority(Sweep.fifth(114, 153, 168, 214, 236, 840, 983, 1447, 1540, 1596, 1848),
                group -> RingAllReduce.over(group).elastic().build(),
                FaultSchedulesTest::assertOneGroup);
    }

    /** After the same step their weights differ by rounding, and the step does not show it. */
    @Test
    void givesRanksThatTookAStepInDifferentEpochsTheSameState() {
        System.setProperty("schedules.mesh", "2");
        try {
            for (long seed : new long[] {647, 650}) {
                assertOneGroup(Schedule.runByMajority(StrategyConformance.plan(seed, 2 + (int) (seed % 4)),
                        group -> RingAllReduce.over(group).elastic().build()).outcomes());
            }
        } finally {
            System.clearProperty("schedules.mesh");
        }
    }

    @Test
    @Tag("stress")
    void reducesByMajorityForLong() {
        runByMajority(Sweep.many(), group -> RingAllReduce.over(group).elastic().build(),
                FaultSchedulesTest::assertOneGroup);
    }

    @Test
    @Tag("stress")
    void gossipsByMajorityForLong() {
        runByMajority(Sweep.many(), Gossip::of, Invariants::requireFinite);
    }

    @Test
    void gossips() {
        run(Sweep.some(1306, 2783, 4097, 4682, 6065, 6399), GOSSIP, true);
    }

    @Test
    @Tag("stress")
    void gossipsForLong() {
        run(Sweep.many(), GOSSIP, true);
    }

    @Test
    void reduces() {
        run(Sweep.some(3008, 4097, 5120, 7682), RING, false);
    }

    @Test
    @Tag("stress")
    void reducesForLong() {
        run(Sweep.many(), RING, false);
    }

    @Test
    void reducesElastically() {
        run(Sweep.some(4097, 5997), ELASTIC_RING, true);
    }

    @Test
    @Tag("stress")
    void reducesElasticallyForLong() {
        run(Sweep.many(), ELASTIC_RING, true);
    }

    @Test
    void reducesCompressed() {
        run(Sweep.few(), compressed(new TopK(0.2)), false);
        run(Sweep.few(), compressed(new PowerSgd(2)), false);
    }

    @Test
    @Tag("stress")
    void reducesCompressedForLong() {
        run(Sweep.many(), compressed(new TopK(0.2)), true);
        run(Sweep.many(), compressed(new PowerSgd(2)), true);
    }

    /** A strategy of a user's own, of nothing but public parts. */
    @Test
    void runsAStrategyOfAUsersOwn() {
        run(Sweep.few(), OWN, false);
    }
}
