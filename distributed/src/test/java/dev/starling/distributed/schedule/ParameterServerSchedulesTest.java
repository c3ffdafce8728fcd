package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.ps.Consistency;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.schedule.Schedule.Outcome;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Parameter servers under drawn plans of faults; see {@link FaultSchedulesTest}. */
class ParameterServerSchedulesTest {
    private static int workers(long seed) {
        return 1 + (int) (seed % 3);
    }

    private static int servers(long seed) {
        return 1 + (int) (seed / 3 % 2);
    }

    private static void run(Sweep sweep, Consistency consistency) {
        boolean isSynchronous = consistency instanceof Consistency.Synchronous;
        int ended = sweep.run(seed -> workers(seed) + servers(seed), plan -> {
            int workers = workers(plan.seed());
            int servers = servers(plan.seed());
            boolean isProportional = isSynchronous && plan.seed() % 2 == 1;
            Schedule schedule = Schedule.run(plan, isSynchronous ? OnLoss.END : OnLoss.REFORM, servers, group -> {
                ParameterServer.Builder how = ParameterServer.worker(group, group.config().wish())
                        .workers(workers).servers(servers).consistency(consistency);
                return (isProportional ? how.proportional() : how).build();
            });
            Map<String, Outcome> outcomes = schedule.outcomes();
            Sweep.explained(schedule);
            Sweep.justified(schedule);
            Sweep.finite(outcomes);
            if (isSynchronous) {
                Sweep.alike(outcomes);
            }
            served(schedule, consistency);
            // All begin with what worker 0 has, which may be a checkpoint's: it may yet come.
            boolean isComplete = outcomes.get("rank0").started || schedule.forecast().isUnharmed("rank0");
            boolean isServed = outcomes.values().stream().filter(o -> isServer(o, workers)).allMatch(
                    o -> schedule.forecast().isUnharmed(o.name));
            return Sweep.wentOn(schedule, !isSynchronous && isComplete && isServed,
                    o -> o.joined && !o.isAgain() && !isServer(o, workers));
        });
        assertThat(ended).as("workers that had to come to their end").isGreaterThanOrEqualTo(sweep.count() / 3);
    }

    private static boolean isServer(Outcome outcome, int workers) {
        return Schedule.rank(outcome.name) >= workers;
    }

    /** Gradients are in the weights once, and workers no further apart than they may be. */
    private static void served(Schedule schedule, Consistency consistency) {
        if (consistency instanceof Consistency.Stale stale) {
            assertThat(schedule.counts().furthestAhead()).as("steps ahead").isLessThanOrEqualTo(stale.bound());
        }
        // Servers in memory that come back have lost what they knew, as has a worker 0 that had not begun.
        if (schedule.outcomes().values().stream().noneMatch(Outcome::isAgain)) {
            assertThat(schedule.counts().wrong()).as("gradients that were lost or counted twice").isEmpty();
        }
    }

    @Test
    void servesWhoDoesNotWait() {
        run(Sweep.some(1474, 2957, 6422, 6838), new Consistency.Asynchronous());
    }

    @Test
    void servesWithABound() {
        run(Sweep.some(1366, 2596, 3293, 8879, 8936, 10426), new Consistency.Stale(1));
    }

    @Test
    void servesInStep() {
        run(Sweep.some(1995, 3123, 6346, 8913), new Consistency.Synchronous());
    }

    @Test
    @Tag("stress")
    void servesWhoDoesNotWaitForLong() {
        run(Sweep.many(), new Consistency.Asynchronous());
    }

    @Test
    @Tag("stress")
    void servesWithABoundForLong() {
        run(Sweep.many(), new Consistency.Stale(1));
    }

    @Test
    @Tag("stress")
    void servesInStepForLong() {
        run(Sweep.many(), new Consistency.Synchronous());
    }
}
