package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.ps.Consistency;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.schedule.Schedule.Outcome;
import dev.starling.transport.simulated.FaultPlan;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Parameter servers under drawn plans of faults; see {@link FaultSchedulesTest}. */
class ParameterServerSchedulesTest {
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

    private static void run(int from, int count, Consistency consistency) {
        boolean isSynchronous = consistency instanceof Consistency.Synchronous;
        int ended = 0;
        for (long seed = from; seed < from + count; seed++) {
            int workers = 1 + (int) (seed % 3);
            int servers = 1 + (int) (seed / 3 % 2);
            FaultPlan plan = FaultPlan.random(seed, Schedule.names(workers + servers), Schedule.HORIZON);
            try {
                Map<String, Outcome> outcomes = Schedule.run(plan, isSynchronous ? OnLoss.END : OnLoss.REFORM, servers,
                        group -> ParameterServer.worker(group, group.config().wish()).workers(workers)
                                .servers(servers).consistency(consistency).build()).outcomes();
                for (int w = 0; w < workers; w++) {
                    ended += outcomes.get("rank" + w).ended ? 1 : 0;
                }
                check(outcomes, isSynchronous);
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError(plan.toString(), e);
            }
        }
        assertThat(ended).as("workers that came to their end").isGreaterThan(count / 12);
    }

    private static void check(Map<String, Outcome> outcomes, boolean isSynchronous) {
        Map<Long, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> {
            if (outcome.failure != null) {
                assertThat(outcome.failure.getMessage()).matches(
                        "(?s).*(rank|coordinator|processes|member|group|server|worker).*");
            }
            outcome.weightsByStep.forEach((step, weights) -> {
                float[] others = isSynchronous ? first.putIfAbsent(step, weights) : null;
                if (others != null && !Arrays.equals(others, weights)) {
                    throw new AssertionError(name + " has " + Arrays.toString(weights) + " after step " + step
                            + ", another rank " + Arrays.toString(others));
                }
                for (float each : weights) {
                    assertThat(each).isFinite();
                }
            });
        });
    }

    @Test
    void shouldServeWhoDoesNotWait() {
        run(0, SOME, new Consistency.Asynchronous());
    }

    @Test
    void shouldServeWithABound() {
        run(0, SOME, new Consistency.Stale(1));
    }

    @Test
    void shouldServeInStep() {
        run(0, SOME, new Consistency.Synchronous());
    }

    @Test
    @Tag("stress")
    void shouldServeWhoDoesNotWaitForLong() {
        run(SOME, MANY, new Consistency.Asynchronous());
    }

    @Test
    @Tag("stress")
    void shouldServeWithABoundForLong() {
        run(SOME, MANY, new Consistency.Stale(1));
    }

    @Test
    @Tag("stress")
    void shouldServeInStepForLong() {
        run(SOME, MANY, new Consistency.Synchronous());
    }
}
