package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.Group;
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
 * Every strategy under many plans of faults, each drawn from a seed: loss, delay, cuts, pauses, crashes, of workers and
 * of the coordinator. Nothing hangs, whoever fails says why, and those who go on agree. A failure tells the plan, which
 * reproduces the run.
 */
class FaultSchedulesTest {
    private static void run(Sweep sweep, OnLoss onLoss, Function<Group, DistributionStrategy> strategy,
            Consumer<Map<String, Outcome>> invariants) {
        LongAdder back = new LongAdder();
        int ended = sweep.run(seed -> 2 + (int) (seed % 3), plan -> {
            Schedule schedule = Schedule.run(plan, onLoss, strategy);
            invariants.accept(schedule.outcomes());
            Sweep.explained(schedule);
            Sweep.justified(schedule);
            back.add(schedule.outcomes().values().stream().filter(o -> o.isAgain() && o.ended).count());
            return Sweep.wentOn(schedule, onLoss == OnLoss.REFORM, o -> o.joined && !o.isAgain());
        });
        assertThat(ended).as("ranks that had to come to their end").isGreaterThanOrEqualTo(sweep.count() / 3);
        if (onLoss == OnLoss.REFORM) {
            assertThat(back.sum()).as("ranks that crashed, came back and came to their end").isGreaterThanOrEqualTo(
                    sweep.count() / 200);
        }
    }

    /** As {@link Sweep#alike}; but an excluded rank may have taken its last steps with others than the survivors. */
    private static void survivorsAlike(Map<String, Outcome> outcomes) {
        Map<String, Outcome> survivors = new HashMap<>(outcomes);
        survivors.values().removeIf(o -> !o.ended);
        Sweep.alike(survivors);
    }

    private static DistributionStrategy ring(Group group) {
        return RingAllReduce.over(group).build();
    }

    private static DistributionStrategy elasticRing(Group group) {
        return RingAllReduce.over(group).elastic().build();
    }

    @Test
    void gossips() {
        run(Sweep.some(1306, 2783, 4097, 4682, 6065, 6399), OnLoss.REFORM, Gossip::of, Sweep::finite);
    }

    @Test
    @Tag("stress")
    void gossipsForLong() {
        run(Sweep.many(), OnLoss.REFORM, Gossip::of, Sweep::finite);
    }

    @Test
    void reduces() {
        run(Sweep.some(3008, 4097, 5120, 7682), OnLoss.END, FaultSchedulesTest::ring, Sweep::alike);
    }

    @Test
    @Tag("stress")
    void reducesForLong() {
        run(Sweep.many(), OnLoss.END, FaultSchedulesTest::ring, Sweep::alike);
    }

    @Test
    void reducesElastically() {
        run(Sweep.some(4097), OnLoss.REFORM, FaultSchedulesTest::elasticRing, FaultSchedulesTest::survivorsAlike);
    }

    @Test
    @Tag("stress")
    void reducesElasticallyForLong() {
        run(Sweep.many(), OnLoss.REFORM, FaultSchedulesTest::elasticRing, FaultSchedulesTest::survivorsAlike);
    }
}
