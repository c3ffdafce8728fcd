package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.Group;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.distributed.schedule.Schedule.Outcome;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.transport.simulated.FaultPlan;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Every strategy under many plans of faults, each drawn from a seed: loss, delay, cuts, pauses, crashes, of workers and
 * of the coordinator. Nothing hangs, whoever fails says why, and those who go on agree. A failure tells the plan, which
 * reproduces the run.
 */
class FaultSchedulesTest {
    private static final int SOME = Integer.getInteger("schedules", 1_000);
    private static final int MANY = 10_000;
    private static final Logger LOG = Logger.getLogger("dev.starling");

    private static Level level;

    @BeforeAll
    static void beQuiet() {
        level = LOG.getLevel();
        LOG.setLevel(Level.OFF);
    }

    @AfterAll
    static void speak() {
        LOG.setLevel(level);
    }

    private static void run(int from, int count, OnLoss onLoss, Function<Group, DistributionStrategy> strategy,
            Consumer<Map<String, Outcome>> invariants) {
        int ended = 0;
        for (long seed = from; seed < from + count; seed++) {
            FaultPlan plan = FaultPlan.random(seed, Schedule.names(2 + (int) (seed % 3)), Schedule.HORIZON);
            try {
                Map<String, Outcome> outcomes = Schedule.run(plan, onLoss, strategy).outcomes();
                invariants.accept(outcomes);
                for (Outcome outcome : outcomes.values()) {
                    ended += outcome.ended ? 1 : 0;
                    if (outcome.failure != null) {
                        assertThat(outcome.failure.getMessage()).matches(
                                "(?s).*(rank|coordinator|processes|member|group).*");
                    }
                }
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError(plan.toString(), e);
            }
        }
        assertThat(ended).as("runs that came to their end").isGreaterThan(count / 4);
    }

    /** All who took a step have the same weights after it. */
    private static void alike(Map<String, Outcome> outcomes) {
        Map<Long, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> outcome.weightsByStep.forEach((step, weights) -> {
            float[] others = first.putIfAbsent(step, weights);
            if (others != null && !Arrays.equals(others, weights)) {
                throw new AssertionError(name + " has " + Arrays.toString(weights) + " after step " + step
                        + ", another rank " + Arrays.toString(others));
            }
        }));
    }

    /** As {@link #alike}, but a rank that was excluded may have taken its last steps with others than the survivors. */
    private static void survivorsAlike(Map<String, Outcome> outcomes) {
        Map<String, Outcome> survivors = new HashMap<>(outcomes);
        survivors.values().removeIf(o -> !o.ended);
        alike(survivors);
    }

    private static void finite(Map<String, Outcome> outcomes) {
        outcomes.values().forEach(o -> o.weightsByStep.values().forEach(w -> {
            for (float each : w) {
                assertThat(each).isFinite();
            }
        }));
    }

    private static DistributionStrategy ring(Group group) {
        return RingAllReduce.over(group).build();
    }

    private static DistributionStrategy elasticRing(Group group) {
        return RingAllReduce.over(group).elastic().build();
    }

    @Test
    void shouldGossip() {
        run(0, SOME, OnLoss.REFORM, Gossip::of, FaultSchedulesTest::finite);
    }

    @Test
    @Tag("stress")
    void shouldGossipForLong() {
        run(SOME, MANY, OnLoss.REFORM, Gossip::of, FaultSchedulesTest::finite);
    }

    @Test
    void shouldReduce() {
        run(0, SOME, OnLoss.END, FaultSchedulesTest::ring, FaultSchedulesTest::alike);
    }

    @Test
    @Tag("stress")
    void shouldReduceForLong() {
        run(SOME, MANY, OnLoss.END, FaultSchedulesTest::ring, FaultSchedulesTest::alike);
    }

    @Test
    void shouldReduceElastically() {
        run(0, SOME, OnLoss.REFORM, FaultSchedulesTest::elasticRing, FaultSchedulesTest::survivorsAlike);
    }

    @Test
    @Tag("stress")
    void shouldReduceElasticallyForLong() {
        run(SOME, MANY, OnLoss.REFORM, FaultSchedulesTest::elasticRing, FaultSchedulesTest::survivorsAlike);
    }
}
