package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Parameter servers under fault plans drawn from seeds; see {@link FaultSchedulesTest}. */
class ParameterServerSchedulesTest {
    private static final Consumer<Group> SERVER = group -> ParameterServer.serve(group,
            ServerConfig.inMemory().ringSize(0));

    private static int workers(long seed) {
        return 1 + (int) (seed % 3);
    }

    private static int servers(long seed) {
        return 1 + (int) (seed / 3 % 2);
    }

    private static void run(Sweep sweep, Consistency consistency) {
        boolean synchronous = consistency instanceof Consistency.Synchronous;
        int ended = sweep.run(seed -> workers(seed) + servers(seed), plan -> {
            int workers = workers(plan.seed());
            int servers = servers(plan.seed());
            boolean proportional = synchronous && plan.seed() % 2 == 1;
            Schedule schedule = Schedule.run(plan, synchronous ? OnLoss.END : OnLoss.REFORM, servers, SERVER,
                    group -> {
                ParameterServer.Builder builder = ParameterServer.worker(group, group.config().preferredRank())
                        .workers(workers).servers(servers).consistency(consistency);
                return (proportional ? builder.proportional() : builder).build();
            });
            Map<String, Outcome> outcomes = schedule.outcomes();
            Invariants.requireExplained(schedule);
            Invariants.requireJustified(schedule);
            Invariants.requireFinite(outcomes);
            if (synchronous) {
                Invariants.requireSameWeights(outcomes);
            }
            assertServed(schedule, consistency);
            // All workers wait for the initial weights of worker 0.
            boolean complete = outcomes.get("rank0").started || schedule.effects().isUnharmed("rank0");
            boolean served = outcomes.values().stream().filter(o -> isServer(o, workers)).allMatch(
                    o -> schedule.effects().isUnharmed(o.name));
            return Invariants.requireFinished(schedule, !synchronous && complete && served,
                    o -> o.joined && !o.isRestarted() && !isServer(o, workers));
        });
        assertThat(ended).as("workers that had to finish").isGreaterThanOrEqualTo(sweep.count() / 3);
    }

    private static boolean isServer(Outcome outcome, int workers) {
        return Schedule.rank(outcome.name) >= workers;
    }

    /** Checks that weights contain each gradient once, and that workers respect the staleness bound. */
    private static void assertServed(Schedule schedule, Consistency consistency) {
        if (consistency instanceof Consistency.Stale stale) {
            assertThat(schedule.counts().furthestAhead()).as("steps ahead").isLessThanOrEqualTo(stale.bound());
        }
        // Restarted servers have lost their weights in memory, as has a worker 0 that had not started training.
        if (schedule.outcomes().values().stream().noneMatch(Outcome::isRestarted)) {
            assertThat(schedule.counts().wrong()).as("gradients that were lost or counted twice").isEmpty();
        }
    }

    @Test
    void servesAsynchronousWorkers() {
        run(Sweep.some(1474, 2957, 6422, 6838), new Consistency.Asynchronous());
    }

    @Test
    void servesWithAStalenessBound() {
        run(Sweep.some(1366, 2596, 3293, 8879, 8936, 10426), new Consistency.Stale(1));
    }

    @Test
    void servesSynchronousWorkers() {
        run(Sweep.some(1995, 3123, 6346, 8913), new Consistency.Synchronous());
    }

    @Test
    @Tag("stress")
    void servesAsynchronousWorkersForLong() {
        run(Sweep.many(), new Consistency.Asynchronous());
    }

    @Test
    @Tag("stress")
    void servesWithAStalenessBoundForLong() {
        run(Sweep.many(), new Consistency.Stale(1));
    }

    @Test
    @Tag("stress")
    void servesSynchronousWorkersForLong() {
        run(Sweep.many(), new Consistency.Synchronous());
    }
}
