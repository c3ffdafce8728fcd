package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.ps.Consistency;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.schedule.Schedule.Outcome;
import java.util.Map;
import java.util.stream.IntStream;
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
            Map<String, Outcome> outcomes = Schedule.run(plan, isSynchronous ? OnLoss.END : OnLoss.REFORM, servers,
                    group -> {
                        ParameterServer.Builder how = ParameterServer.worker(group, group.config().wish())
                                .workers(workers).servers(servers).consistency(consistency);
                        return (isProportional ? how.proportional() : how).build();
                    }).outcomes();
            Sweep.explained(outcomes);
            Sweep.finite(outcomes);
            if (isSynchronous) {
                Sweep.alike(outcomes);
            }
            return (int) IntStream.range(0, workers).filter(w -> outcomes.get("rank" + w).ended).count();
        });
        assertThat(ended).as("workers that came to their end").isGreaterThan(sweep.count() / 12);
    }

    @Test
    void shouldServeWhoDoesNotWait() {
        run(Sweep.some(), new Consistency.Asynchronous());
    }

    @Test
    void shouldServeWithABound() {
        run(Sweep.some(), new Consistency.Stale(1));
    }

    @Test
    void shouldServeInStep() {
        run(Sweep.some(), new Consistency.Synchronous());
    }

    @Test
    @Tag("stress")
    void shouldServeWhoDoesNotWaitForLong() {
        run(Sweep.many(), new Consistency.Asynchronous());
    }

    @Test
    @Tag("stress")
    void shouldServeWithABoundForLong() {
        run(Sweep.many(), new Consistency.Stale(1));
    }

    @Test
    @Tag("stress")
    void shouldServeInStepForLong() {
        run(Sweep.many(), new Consistency.Synchronous());
    }
}
