package dev.starling.jmh;

import static dev.starling.jmh.Statistics.median;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * Measures Starling and a peer in alternating runs, so that other load on the machine affects both. First it finds the
 * peer's fastest variant and environment; then it measures pairs of runs.
 */
final class PairedComparison implements AutoCloseable {
    /** Long enough for the threads of the engine that ran before to park. */
    private static final long PAUSE_MILLIS = 40;
    private static final double SAMPLE_NANOS = 300e6;
    /** Long enough for the compilers to come to rest. */
    private static final long SETTLE_MILLIS = 12_000;

    private final int threads;
    private final Clock clock;
    private final int pairs;
    private final long warmupMillis;
    private final Consumer<String> progress;
    private final Map<Contender, List<WorkerProcess>> processes = new EnumMap<>(Contender.class);
    private WorkerProcess withoutFlag;

    /** Makes a comparison whose processes start at their first use. */
    PairedComparison(int threads, Clock clock, int pairs, long warmupMillis, Consumer<String> progress) {
        this.threads = threads;
        this.clock = clock;
        this.pairs = pairs;
        this.warmupMillis = warmupMillis;
        this.progress = progress;
    }

    /** Compares Starling with each peer that supports the workload. */
    List<Comparison> compare(Workload workload) {
        List<Comparison> comparisons = new ArrayList<>();
        for (Contender peer : List.of(Contender.PYTORCH, Contender.ONEDNN)) {
            Candidate best = best(peer, workload instanceof Workload.Started started ? started.step() : workload);
            if (best != null) {
                comparisons.add(switch (workload) {
                    case Workload.FirstStep first -> started(first, peer, best, process -> process.time(1));
                    case Workload.TimeToSpeed speed ->
                        started(speed, peer, best, process -> process.settle(SETTLE_MILLIS));
                    case Workload.WithoutFlag(var step) -> pair(workload, step, peer, withoutFlag(), best);
                    default -> pair(workload, workload, peer, processes(Contender.STARLING).getFirst(), best);
                });
            }
        }
        return comparisons;
    }

    @Override
    public void close() {
        processes.values().forEach(started -> started.forEach(WorkerProcess::close));
        if (withoutFlag != null) {
            withoutFlag.close();
        }
    }

    /** Measures in processes of their own, which live for one measurement. */
    private Comparison started(Workload.Started workload, Contender peer, Candidate candidate,
            ToLongFunction<WorkerProcess> measured) {
        return paired(workload, peer, candidate,
            () -> started(Contender.STARLING, Map.of(), workload, null, measured),
            () -> started(peer, candidate.process.settings(), workload, candidate.variant, measured));
    }

    private double started(Contender contender, Map<String, String> settings, Workload.Started workload,
            String variant, ToLongFunction<WorkerProcess> measured) {
        pause();
        try (WorkerProcess process =
                new WorkerProcess(contender, threads, clock, settings, WorkerProcess.flags())) {
            process.prepare(workload.step(),
                variant == null ? process.variants(workload.step()).getFirst() : variant);
            return measured.applyAsLong(process);
        }
    }

    /** Measures runs of {@code run} in processes that are warm. */
    private Comparison pair(Workload workload, Workload run, Contender peer, WorkerProcess us, Candidate candidate) {
        WorkerProcess them = candidate.process;
        us.prepare(run, us.variants(run).getFirst());
        long ourNanos = us.warm(warmupMillis);
        them.prepare(run, candidate.variant);
        long theirNanos = them.warm(warmupMillis);
        Comparison comparison =
            paired(workload, peer, candidate, () -> sample(us, ourNanos), () -> sample(them, theirNanos));
        us.release();
        them.release();
        return comparison;
    }

    /** Measures both, by turns in both orders. */
    private Comparison paired(Workload workload, Contender peer, Candidate candidate, DoubleSupplier us,
            DoubleSupplier them) {
        double[] ours = new double[pairs];
        double[] theirs = new double[pairs];
        double[] ratios = new double[pairs];
        for (int i = 0; i < pairs; i++) {
            progress.accept(workload.name() + " with " + peer + ", pair " + (i + 1) + " of " + pairs);
            if (i % 2 == 0) {
                ours[i] = us.getAsDouble();
                theirs[i] = them.getAsDouble();
            } else {
                theirs[i] = them.getAsDouble();
                ours[i] = us.getAsDouble();
            }
            ratios[i] = theirs[i] / ours[i];
        }
        return new Comparison(workload, peer, candidate.toString(),
            workload.unit().of(workload.work(), median(ours)),
            workload.unit().of(workload.work(), median(theirs)), median(ratios));
    }

    /** Returns the peer's fastest variant, measured alternately with the others, or {@code null} if it has none. */
    private Candidate best(Contender peer, Workload workload) {
        List<Candidate> candidates = new ArrayList<>();
        for (WorkerProcess process : processes(peer)) {
            process.variants(workload).forEach(variant -> candidates.add(new Candidate(process, variant)));
        }
        int rounds = candidates.size() > 1 ? 3 : 0;
        for (int round = 0; round < rounds; round++) {
            for (Candidate candidate : candidates) {
                progress.accept(workload.name() + ": looking for the fastest variant of " + peer + ", " + candidate);
                pause();
                candidate.process.prepare(workload, candidate.variant);
                candidate.times[round] = candidate.process.warm(warmupMillis / 4);
                candidate.process.release();
            }
        }
        return candidates.stream().min(Comparator.comparingDouble(candidate -> median(candidate.times))).orElse(null);
    }

    /**
     * Starts processes one after the other: the first one on a machine unpacks native libraries, which another would
     * load unfinished.
     */
    private List<WorkerProcess> processes(Contender contender) {
        List<WorkerProcess> started = processes.computeIfAbsent(contender, _ -> new ArrayList<>());
        if (started.isEmpty()) {
            for (Map<String, String> settings : contender.settings(threads)) {
                WorkerProcess process = new WorkerProcess(contender, threads, clock, settings, WorkerProcess.flags());
                started.add(process);
                process.release(); // It answers once its libraries are loaded.
            }
        }
        return started;
    }

    private WorkerProcess withoutFlag() {
        if (withoutFlag == null) {
            withoutFlag = new WorkerProcess(Contender.STARLING, threads, clock, Map.of(),
                WorkerProcess.flagsWithoutModules());
        }
        return withoutFlag;
    }

    /** Returns the time of one run, averaged over as many runs as fill a sample. */
    private static double sample(WorkerProcess process, long runNanos) {
        int runs = (int) Math.max(1, Math.round(SAMPLE_NANOS / runNanos));
        pause();
        return (double) process.time(runs) / runs;
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
    }

    /** A process with its environment, and one of its variants. */
    private static final class Candidate {
        private final WorkerProcess process;
        private final String variant;
        private final double[] times = new double[3];

        Candidate(WorkerProcess process, String variant) {
            this.process = process;
            this.variant = variant;
        }

        @Override
        public String toString() {
            String settings = process.settings().entrySet().stream()
                .filter(setting -> !Contender.KEEP_MEMORY.containsKey(setting.getKey()))
                .sorted(Map.Entry.comparingByKey()).map(Object::toString).collect(Collectors.joining(" "));
            return (variant.toLowerCase(java.util.Locale.ROOT) + " " + settings).strip();
        }
    }
}
