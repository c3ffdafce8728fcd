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
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import java.util.function.LongToIntFunction;
import java.util.function.Predicate;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.regex.Pattern;
import java.util.stream.LongStream;

/** Many schedules, one for each seed, without logging if there are several, and assertions on their outcomes. */
record Sweep(long[] seeds) {
    private static final Logger LOG = Logger.getLogger("dev.starling");
    private static final Set<Kind> WEATHER = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE);
    private static final Set<Kind> DEATHS = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE, Kind.CRASH);

    /**
     * Maximum time until all processes detect a loss: one liveness timeout until the first detects it, another until
     * processes that could not be notified lose that one, half of one until the coordinator decides, and half of one
     * for messages in flight.
     */
    private static final Duration DETECTION = Schedule.SILENCE.multipliedBy(3);
    /** The subject of an error message. */
    private static final Pattern SUBJECT = Pattern.compile("(rank|server|worker|group of) [0-9]|coordinator"
            + "|[0-9] processes|all ranks have arrived");
    /** The cause in an error message. */
    private static final Pattern CAUSE = Pattern.compile("closed|ended the connection|received nothing|frames were lost"
            + "|has left|cut off from|did not connect|did not return|has not arrived|has not answered"
            + "|has seen no worker|is cut off from the quorum|no connection yet|waits for other members|did not start within|waited PT"
            + "|is complete");

    /** Returns the seeds of the test command: the first ones, and some that have found a defect before. */
    static Sweep some(long... others) {
        return new Sweep(LongStream.concat(LongStream.range(0, Integer.getInteger("schedules", 600)),
                LongStream.of(others)).toArray());
    }

    /** Returns fewer seeds of the test command, and some that have found a defect before. */
    static Sweep few(long... others) {
        return new Sweep(LongStream.concat(LongStream.range(0, Integer.getInteger("schedules", 600) / 5),
                LongStream.of(others)).toArray());
    }

    /** Returns the seeds of the stress profile. */
    static Sweep many() {
        int from = Integer.getInteger("schedules", 600);
        return new Sweep(LongStream.range(from, from + Integer.getInteger("schedules.count", 10_000)).toArray());
    }

    int count() {
        return seeds.length;
    }

    /**
     * Runs a fault plan for each seed, each in one thread. A test failure lists the seeds that failed, each with its
     * plan, which reproduces the run.
     *
     * @param processes number of processes besides the coordinator, by seed
     * @param run runs a plan, checks its outcomes, and returns the number of processes that had to finish
     * @return the sum of these numbers
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

    /** Most plans have all kinds of faults; some have no crashes, some no broken connections. */
    private static Set<Kind> kinds(long seed) {
        return seed % 8 == 3 ? WEATHER : seed % 8 == 6 ? DEATHS : EnumSet.allOf(Kind.class);
    }

    /** Checks that the message of each failed process names a process and a cause. */
    static void assertExplained(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            if (outcome.failure != null) {
                assertThat(outcome.failure.getMessage()).as(() -> outcome.name + schedule.describe())
                        .containsPattern(SUBJECT).containsPattern(CAUSE);
            }
        }
    }

    /**
     * Checks that all processes have the same weights after a step. A process that is restarted when all others have
     * ended begins another run, which is compared separately.
     */
    static void assertSameWeights(Map<String, Outcome> outcomes) {
        long anotherNs = outcomes.values().stream().filter(o -> o.isRestarted() && o.weightsByStep.containsKey(1L))
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

    /**
     * Checks that no two groups trained at a time: an epoch has the same members for all, and after the first step of
     * an epoch no process takes more than the step of an earlier epoch that it had all data for.
     */
    static void assertOneGroup(Map<String, Outcome> outcomes) {
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
                                .isLessThanOrEqualTo(1);
                    }
                })));
    }

    /**
     * Checks that all processes have the same weights after a step of an epoch. A process that returns drops the step
     * that it took when the others had begun another epoch, where the sum of the gradients is rounded differently.
     */
    static void assertSameWeightsInEachEpoch(Map<String, Outcome> outcomes) {
        Map<List<Long>, float[]> first = new HashMap<>();
        outcomes.forEach((name, outcome) -> outcome.weightsByEpochAndStep.forEach((step, weights) ->
                assertThat(weights).as(() -> name + " in epoch and after step " + step)
                        .isEqualTo(first.computeIfAbsent(step, _ -> weights))));
    }

    /** Checks that all weights are finite. */
    static void assertFinite(Map<String, Outcome> outcomes) {
        outcomes.values().forEach(o -> o.weightsByStep.values().forEach(w -> {
            for (float each : w) {
                assertThat(each).isFinite();
            }
        }));
    }

    /** Checks that each reported loss is explained by a fault, and was reported soon after it. */
    static void assertJustified(Schedule schedule) {
        for (Outcome outcome : schedule.outcomes().values()) {
            if (outcome.failure instanceof PeerLostException e) {
                ReportedLoss report = ReportedLoss.of(schedule, outcome, e);
                boolean timedOut = e.getMessage().contains("did not return within");
                assertThat(report.explained()).as(() -> outcome.name + ": a fault had affected " + report.process()
                        + " by " + outcome.failedNs + schedule.describe()).isTrue();
                assertThat(Duration.ofNanos(report.sinceNs())).as(() -> outcome.name + ": time since the last fault"
                        + schedule.describe())
                        .isLessThan((timedOut ? Schedule.TIMEOUT : Duration.ZERO).plus(DETECTION));
            }
        }
    }

    /**
     * Checks that every process that could not be excluded has finished its run; without harmful faults, that all have.
     *
     * @param survives whether the remaining processes continue after a loss
     * @param mustFinish whether a process has to finish if no fault has harmed it
     * @return the number of processes that had to finish
     */
    static int assertFinished(Schedule schedule, boolean survives, Predicate<Outcome> mustFinish) {
        boolean fair = schedule.effects().isFair();
        int count = 0;
        for (Outcome outcome : schedule.outcomes().values()) {
            if (fair || survives && schedule.effects().isUnharmed(outcome.name) && mustFinish.test(outcome)) {
                assertThat(outcome.ended).as(() -> outcome.name + " finishes" + (fair ? " without harmful faults"
                        : "") + schedule.describe()).isTrue();
                count++;
            }
        }
        return count;
    }
}
