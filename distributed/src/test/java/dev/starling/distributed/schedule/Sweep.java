package dev.starling.distributed.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.schedule.Schedule.Outcome;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.FaultPlan.Kind;
import java.time.Duration;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import java.util.function.LongToIntFunction;
import java.util.function.Predicate;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import java.util.stream.LongStream;

/** Many schedules, one for each seed, in silence if they are many, and what holds of their outcomes. */
record Sweep(long[] seeds) {
    private static final Logger LOG = Logger.getLogger("dev.starling");
    private static final Set<Kind> WEATHER = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE);
    private static final Set<Kind> DEATHS = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE, Kind.CRASH);

    /**
     * How long it may take until all know of a loss: one silence until the first gives up, another until those hear no
     * more who could not be told; half a one until the coordinator judges; and half a one for messages on their way.
     */
    private static final Duration TELLING = Schedule.SILENCE.multipliedBy(3);
    /** Whom it is about. */
    private static final Pattern WHOM = Pattern.compile("(rank|server|worker|group of) [0-9]|coordinator"
            + "|[0-9] processes|all ranks have come");
    /** What was noticed. */
    private static final Pattern CAUSE = Pattern.compile("closed|ended the connection|received nothing"
            + "|frames were lost|has left|cut off from|did not reach|has not come|has not answered|has seen no worker"
            + "|no way yet|gathers the members|joined within|waited PT|is complete");

    /** Returns those of the test command: the first ones, and some that have found a defect once. */
    static Sweep some(long... others) {
        return new Sweep(LongStream.concat(LongStream.range(0, Integer.getInteger("schedules", 600)),
                LongStream.of(others)).toArray());
    }

    /** Returns those of the stress profile: so many from a first seed on. */
    static Sweep many() {
        int from = Integer.getInteger("schedules", 600);
        return new Sweep(LongStream.range(from, from + Integer.getInteger("schedules.count", 10_000)).toArray());
    }

    int count() {
        return seeds.length;
    }

    /**
     * Runs a plan of faults for each seed, each in one thread. A failure tells which seeds failed, and of each the
     * plan, which reproduces the run.
     *
     * @param processes how many there are besides the coordinator, by seed
     * @param run runs a plan, checks what is to hold, and returns how many processes it was that had to go on
     * @return how many that were in all
     */
    int run(LongToIntFunction processes, Function<FaultPlan, Integer> run) {
        Level level = LOG.getLevel();
        LOG.setLevel(count() == 1 ? level : Level.OFF);
        try {
            Map<Long, Throwable> failures = new ConcurrentSkipListMap<>();
            int sum = LongStream.of(seeds).parallel().mapToInt(seed -> {
                FaultPlan plan = FaultPlan.random(seed, Schedule.names(processes.applyAsInt(seed)), Schedule.HORIZON,
                        kinds(seed));
                try {
                    return run.apply(plan);
                } catch (AssertionError | RuntimeException e) {
                    failures.put(seed, new AssertionError(plan + "\n" + e.getMessage(), e));
                    return 0;
                }
            }).sum();
            if (!failures.isEmpty()) {
                StringBuilder all = new StringBuilder("of seeds " + failures.keySet());
                failures.values().forEach(each -> all.append("\n\n").append(each.getMessage()));
                throw new AssertionError(all.toString(), failures.values().iterator().next());
            }
            return sum;
        } finally {
            LOG.setLevel(level);
        }
    }

    /** Most plans have all kinds of faults. Some leave all alive, some all connections. */
    private static Set<Kind> kinds(long seed) {
        return seed % 8 == 3 ? WEATHER : seed % 8 == 6 ? DEATHS : EnumSet.allOf(Kind.class);
    }

    /** Whoever failed says whom it is about, and what of. */
    static void explained(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            if (outcome.failure != null) {
                assertThat(outcome.failure.getMessage()).as(() -> outcome.name + schedule.told())
                        .containsPattern(WHOM).containsPattern(CAUSE);
            }
        }
    }

    /** All who took a step of one run have the same weights after it; who is back when all are gone begins another. */
    static void alike(Map<String, Outcome> outcomes) {
        long anotherNs = outcomes.values().stream().filter(o -> o.isAgain() && o.weightsByStep.containsKey(1L))
                .mapToLong(o -> o.firstStepNs).min().orElse(Long.MAX_VALUE);
        Map<Long, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> outcome.weightsByStep.forEach((step, weights) -> {
            float[] others = first.putIfAbsent(outcome.firstStepNs < anotherNs ? step : -step, weights);
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

    /** Whoever gave up because of a loss names one that something had happened to, and did so soon afterwards. */
    static void justified(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            if (outcome.failure instanceof PeerLostException e) {
                Blame blame = Blame.of(schedule, outcome, e);
                boolean isPatient = e.getMessage().contains("has not come back within");
                assertThat(blame.isJust()).as(() -> outcome.name + ": something had happened to " + blame.named()
                        + " by " + outcome.failedNs + schedule.told()).isTrue();
                assertThat(Duration.ofNanos(blame.sinceNs())).as(() -> outcome.name + ": time since the last fault"
                        + schedule.told()).isLessThan((isPatient ? Schedule.PATIENCE : Duration.ZERO).plus(TELLING));
            }
        }
    }

    /**
     * Those whom nobody had a reason to exclude have come to the end of their run; in fair weather all have.
     *
     * @param goesOn whether those who are left go on after a loss
     * @param isAwaited tells of an outcome whether it has to come to its end if it was not harmed
     * @return how many had to come to their end
     */
    static int wentOn(Schedule schedule, boolean goesOn, Predicate<Outcome> isAwaited) {
        boolean isFair = schedule.forecast().isFair();
        int count = 0;
        for (Outcome outcome : schedule.outcomes().values()) {
            if (isFair || goesOn && schedule.forecast().isUnharmed(outcome.name) && isAwaited.test(outcome)) {
                assertThat(outcome.ended).as(() -> outcome.name + " comes to its end" + (isFair ? " in fair weather"
                        : "") + schedule.told()).isTrue();
                count++;
            }
        }
        return count;
    }
}
