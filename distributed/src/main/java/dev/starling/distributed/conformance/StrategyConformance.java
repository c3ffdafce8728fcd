package dev.starling.distributed.conformance;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.FaultPlan.Kind;
import dev.starling.transport.simulated.SimulationException;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * Runs a strategy, for example one of a user's own, through trainings with simulated faults, and checks what a
 * strategy has to guarantee. Trainer, group and transport are the real ones; network, time and faults are simulated in
 * this process, each run from a seed, which repeats it on any machine. For use in a test, with any test framework:
 *
 * <pre>{@code
 * StrategyConformance.of(MyStrategy::new).elastic().refuses(group -> new MyStrategy(group, otherSettings))
 *         .run(LongStream.range(0, 100));
 * }</pre>
 *
 * <ul>
 * <li>Without faults, one to three ranks of a synchronous strategy have after each step the weights of one process on
 * the same batches, to within rounding.
 * <li>All ranks of a synchronous strategy have the same bits after each step, under any faults. Weights are finite.
 * <li>No run hangs. A rank that fails does so with a {@link DistributedException} or a
 * {@link dev.starling.transport.TransportException} that names a process and a cause; a rank that it reports as lost
 * had been affected by a fault, shortly before.
 * <li>Without harmful faults all ranks finish. If the strategy is {@linkplain #elastic elastic}, ranks that were not
 * harmed themselves finish whatever happens to others, and processes that crash are restarted and may return.
 * <li>Ranks with {@linkplain #refuses different settings} all end with an exception before the first step.
 * </ul>
 *
 * <p>A strategy must work without threads of its own and wait only by means of its {@link Group}, whose transport is
 * simulated. Immutable.
 */
public final class StrategyConformance {
    /** Relative to 1 or the weight, whichever is more. */
    private static final double ROUNDING = 1e-4;
    private static final Set<Kind> WEATHER = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE);
    private static final Set<Kind> DEATHS = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE, Kind.CRASH);

    /** Smallest number of workers; with eight or more, and the property {@code schedules.mesh}, some are not linked. */
    private static final int WORKERS = Integer.getInteger("schedules.workers", 2);

    private final Function<Group, DistributionStrategy> strategy;
    private final OnLoss onLoss;
    private final boolean exact;
    private final @Nullable Function<Group, DistributionStrategy> other;

    private StrategyConformance(Function<Group, DistributionStrategy> strategy, OnLoss onLoss, boolean exact,
            @Nullable Function<Group, DistributionStrategy> other) {
        this.strategy = strategy;
        this.onLoss = onLoss;
        this.exact = exact;
        this.other = other;
    }

    /**
     * Counts of a run in which nothing was wrong.
     *
     * @param schedules number of schedules of faults
     * @param finished number of ranks that had to finish, and did
     * @param failed number of ranks that ended with an exception, as they may
     * @param returned number of ranks that crashed, were restarted and finished
     */
    public record Report(int schedules, long finished, long failed, long returned) { }

    /** Begins with a strategy whose run ends when a rank is lost; the function creates it on each rank. */
    public static StrategyConformance of(Function<Group, DistributionStrategy> strategy) {
        return new StrategyConformance(strategy, OnLoss.END, true, null);
    }

    /** Requires that training continues with the remaining ranks, and with processes that join. */
    public StrategyConformance elastic() {
        return new StrategyConformance(strategy, OnLoss.REFORM, exact, other);
    }

    /** Does not require the weights of one process, as where gradients are compressed. */
    public StrategyConformance inexact() {
        return new StrategyConformance(strategy, onLoss, false, other);
    }

    /** Requires that ranks do not train together where rank 1 has the strategy that this function creates. */
    public StrategyConformance refuses(Function<Group, DistributionStrategy> different) {
        return new StrategyConformance(strategy, onLoss, exact, different);
    }

    /**
     * Runs all checks, and a schedule of faults for each seed, in several threads.
     *
     * @throws AssertionError if one fails; it lists all seeds that failed, with their faults and what became of each
     *     process
     */
    public Report run(LongStream seeds) {
        try {
            checkWithoutFaults();
        } catch (SimulationException e) {
            throw new AssertionError(e.getMessage(), e);
        }
        Map<Long, Throwable> failures = new ConcurrentSkipListMap<>();
        LongAdder schedules = new LongAdder();
        LongAdder finished = new LongAdder();
        LongAdder failed = new LongAdder();
        LongAdder returned = new LongAdder();
        seeds.parallel().forEach(seed -> {
            FaultPlan plan = plan(seed, WORKERS + Math.floorMod(seed, 3));
            schedules.increment();
            try {
                Schedule schedule = Schedule.run(plan, onLoss, strategy);
                finished.add(check(schedule));
                for (Outcome each : schedule.outcomes().values()) {
                    failed.add(each.failure == null ? 0 : 1);
                    returned.add(each.isRestarted() && each.ended ? 1 : 0);
                }
            } catch (AssertionError | RuntimeException e) {
                failures.put(seed, new AssertionError(plan + "\n" + e.getMessage(), e));
            }
        });
        throwAll(failures);
        return new Report(schedules.intValue(), finished.sum(), failed.sum(), returned.sum());
    }

    private void checkWithoutFaults() {
        if (exact) {
            // The seed selects the model: two weights, or a network with hidden layers.
            checkEquality(1, 2);
            checkEquality(2, 8);
            checkEquality(3, 28);
        }
        if (other != null) {
            checkRefusal(other);
        }
    }

    /** Returns a plan in which, for most seeds, any faults happen; some have no crashes or no broken connections. */
    static FaultPlan plan(long seed, int processes) {
        return FaultPlan.random(seed, Schedule.names(processes), Schedule.HORIZON,
                Math.floorMod(seed, 8) == 3 ? WEATHER : Math.floorMod(seed, 8) == 6 ? DEATHS
                        : EnumSet.allOf(Kind.class));
    }

    /** Throws an error that lists the failures of all seeds, if there are any. */
    static void throwAll(Map<Long, Throwable> failures) {
        if (!failures.isEmpty()) {
            StringBuilder all = new StringBuilder("of seeds " + failures.keySet());
            failures.values().forEach(each -> all.append("\n\n").append(each.getMessage()));
            throw new AssertionError(all.toString(), failures.values().iterator().next());
        }
    }

    private int check(Schedule schedule) {
        Map<String, Outcome> outcomes = new HashMap<>(schedule.outcomes());
        if (onLoss == OnLoss.REFORM) {
            // An excluded rank may have taken its last steps without the others.
            outcomes.values().removeIf(each -> !each.ended);
        }
        outcomes.values().removeIf(each -> !each.synchronous);
        Invariants.requireSameWeights(outcomes);
        Invariants.requireFinite(schedule.outcomes());
        Invariants.requireExplained(schedule);
        Invariants.requireJustified(schedule);
        return Invariants.requireFinished(schedule, onLoss == OnLoss.REFORM, o -> o.joined && !o.isRestarted());
    }

    private void checkEquality(int world, long seed) {
        FaultPlan plan = FaultPlan.none(seed, Schedule.names(world));
        Schedule schedule = Schedule.run(plan, onLoss, strategy);
        Map<Long, float[]> expected = Schedule.alone(plan);
        Invariants.requireFinished(schedule, false, _ -> true);
        for (Outcome each : schedule.outcomes().values()) {
            if (each.synchronous) {
                requireEqual(each.name + " of " + world, each.weightsByStep, expected);
            }
        }
    }

    private static void requireEqual(String name, Map<Long, float[]> weights, Map<Long, float[]> expected) {
        Invariants.require(weights.keySet().equals(expected.keySet()), () -> name + " took the steps "
                + weights.keySet() + ", one process " + expected.keySet());
        expected.forEach((step, all) -> {
            float[] own = Objects.requireNonNull(weights.get(step));
            for (int i = 0; i < all.length; i++) {
                double difference = Math.abs(own[i] - all[i]);
                int index = i;
                Invariants.require(difference <= ROUNDING * Math.max(1, Math.abs(all[i])), () -> name + " has "
                        + own[index] + " in weight " + index + " after step " + step + ", one process " + all[index]
                        + "; the sum over ranks of the gradients must be that of the batch, or call inexact()");
            }
        });
    }

    private void checkRefusal(Function<Group, DistributionStrategy> different) {
        FaultPlan plan = FaultPlan.none(0, Schedule.names(2));
        Schedule schedule = Schedule.run(plan, onLoss, group -> group.config().preferredRank() == 1
                ? different.apply(group) : strategy.apply(group));
        for (Outcome each : schedule.outcomes().values()) {
            Invariants.require(each.failure != null && each.weightsByStep.isEmpty(), () -> each.name
                    + " trains together with a rank of other settings" + schedule.describe());
        }
    }
}
