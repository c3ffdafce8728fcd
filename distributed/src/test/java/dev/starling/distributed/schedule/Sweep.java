package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.schedule.Schedule.Outcome;
import dev.starling.transport.simulated.FaultPlan;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.LongToIntFunction;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.LongStream;

/** Many schedules, one for each seed of a range, in silence, and what holds of their outcomes. */
record Sweep(int from, int count) {
    private static final Logger LOG = Logger.getLogger("dev.starling");

    /** Returns those of the test command. */
    static Sweep some() {
        return new Sweep(0, Integer.getInteger("schedules", 1_000));
    }

    /** Returns those of the stress profile. */
    static Sweep many() {
        return new Sweep(Integer.getInteger("schedules", 1_000), 10_000);
    }

    /**
     * Runs a plan of faults for each seed, each in one thread. A failure tells the plan, which reproduces the run.
     *
     * @param processes how many there are besides the coordinator, by seed
     * @param run runs a plan, checks what is to hold, and returns how many processes came to their end
     * @return how many came to their end in all
     */
    int run(LongToIntFunction processes, Function<FaultPlan, Integer> run) {
        Level level = LOG.getLevel();
        LOG.setLevel(Level.OFF);
        try {
            return LongStream.range(from, from + count).parallel().mapToInt(seed -> {
                FaultPlan plan = FaultPlan.random(seed, Schedule.names(processes.applyAsInt(seed)), Schedule.HORIZON);
                try {
                    return run.apply(plan);
                } catch (AssertionError | RuntimeException e) {
                    throw new AssertionError(plan.toString(), e);
                }
            }).sum();
        } finally {
            LOG.setLevel(level);
        }
    }

    /** Whoever failed says what of. */
    static void explained(Map<String, Outcome> outcomes) {
        for (Outcome outcome : outcomes.values()) {
            if (outcome.failure != null) {
                assertThat(outcome.failure.getMessage()).matches(
                        "(?s).*(rank|coordinator|processes|member|group|server|worker).*");
            }
        }
    }

    /** All who took a step have the same weights after it. */
    static void alike(Map<String, Outcome> outcomes) {
        Map<Long, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> outcome.weightsByStep.forEach((step, weights) -> {
            float[] others = first.putIfAbsent(step, weights);
            if (others != null && !Arrays.equals(others, weights)) {
                throw new AssertionError(name + " has " + Arrays.toString(weights) + " after step " + step
                        + ", another rank " + Arrays.toString(others));
            }
        }));
    }

    /** No weight has gone astray. */
    static void finite(Map<String, Outcome> outcomes) {
        outcomes.values().forEach(o -> o.weightsByStep.values().forEach(w -> {
            for (float each : w) {
                assertThat(each).isFinite();
            }
        }));
    }
}
