package dev.starling.distributed.conformance;

import dev.starling.transport.simulated.FaultPlan;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Function;
import java.util.function.LongToIntFunction;
import java.util.function.Supplier;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.LongStream;

/** The seeds of many schedules, which run without logging if there are several. */
record Sweep(long[] seeds) {
    /** Number of schedules of the test command. */
    private static final int SHORT = Integer.getInteger("schedules", 60);
    private static final Logger LOG = Logger.getLogger("dev.starling");

    /** Returns the seeds of the test command: the first ones, and some that have found a defect before. */
    static Sweep some(long... others) {
        return new Sweep(LongStream.concat(LongStream.range(0, SHORT),
                LongStream.of(others)).toArray());
    }

    /** Returns fewer seeds of the test command, and some that have found a defect before. */
    static Sweep fifth(long... others) {
        return new Sweep(LongStream.concat(LongStream.range(0, SHORT / 5),
                LongStream.of(others)).toArray());
    }

    /** Returns some of the first seeds, for variants of a strategy. */
    static Sweep few() {
        return new Sweep(LongStream.range(0, Math.min(30, SHORT)).toArray());
    }

    /** Returns the seeds of the stress profile. */
    static Sweep many() {
        return new Sweep(LongStream.range(SHORT, SHORT + Integer.getInteger("schedules.count", 10_000)).toArray());
    }

    int count() {
        return seeds.length;
    }

    /** Runs the checks of a strategy. */
    StrategyConformance.Report run(StrategyConformance conformance) {
        return quietly(() -> conformance.run(LongStream.of(seeds)));
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
        return quietly(() -> {
            Map<Long, Throwable> failures = new ConcurrentSkipListMap<>();
            int sum = LongStream.of(seeds).parallel().mapToInt(seed -> {
                FaultPlan plan = StrategyConformance.plan(seed, processes.applyAsInt(seed));
                try {
                    return run.apply(plan);
                } catch (AssertionError | RuntimeException e) {
                    failures.put(seed, new AssertionError(plan + "\n" + e.getMessage(), e));
                    return 0;
                }
            }).sum();
            StrategyConformance.throwAll(failures);
            return sum;
        });
    }

    private <T> T quietly(Supplier<T> run) {
        Level level = LOG.getLevel();
        LOG.setLevel(count() == 1 ? level : Level.OFF);
        try {
            return run.get();
        } finally {
            LOG.setLevel(level);
        }
    }
}
