package dev.starling.jmh;

import static dev.starling.jmh.Statistics.median;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Measures Starling and a peer in alternating runs, so that other load on the machine affects both. First it finds the
 * peer's fastest variant and environment; then it measures pairs of runs.
 */
final class PairedComparison implements AutoCloseable {
    /** Long enough for the threads of the engine that ran before to park. */
    private static final long PAUSE_MILLIS = 40;
    private static final double SAMPLE_NANOS = 300e6;

    private final int threads;
    private final Clock clock;
    private final int pairs;
    private final long warmupMillis;
    private final Consumer<String> progress;
    private final Map<Contender, List<WorkerProcess>> processes = new EnumMap<>(Contender.class);

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
            Candidate best = best(peer, workload);
            if (best != null) {
                comparisons.add(pair(workload, peer, best));
            }
        }
        return comparisons;
    }

    @Override
    public void close() {
        processes.values().forEach(started -> started.forEach(WorkerProcess::close));
    }

    private Comparison pair(Workload workload, Contender peer, Candidate candidate) {
        WorkerProcess us = processes(Contender.STARLING).getFirst();
        WorkerProcess them = candidate.process;
        us.prepare(workload, us.variants(workload).getFirst());
        long ourNanos = us.warm(warmupMillis);
        them.prepare(workload, candidate.variant);
        long theirNanos = them.warm(warmupMillis);
        double[] ours = new double[pairs];
        double[] theirs = new double[pairs];
        double[] ratios = new double[pairs];
        for (int i = 0; i < pairs; i++) {
            progress.accept(workload.name() + " with " + peer + ", pair " + (i + 1) + " of " + pairs);
            if (i % 2 == 0) {
                ours[i] = sample(us, ourNanos);
                theirs[i] = sample(them, theirNanos);
            } else {
                theirs[i] = sample(them, theirNanos);
                ours[i] = sample(us, ourNanos);
            }
            ratios[i] = theirs[i] / ours[i];
        }
        us.release();
        them.release();
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

    private List<WorkerProcess> processes(Contender contender) {
        return processes.computeIfAbsent(contender, c -> c.settings(threads).stream()
            .map(settings -> new WorkerProcess(c, threads, clock, settings)).toList());
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
            String settings = process.settings().entrySet().stream().sorted(Map.Entry.comparingByKey())
                .map(Object::toString).collect(Collectors.joining(" "));
            return (variant.toLowerCase(java.util.Locale.ROOT) + " " + settings).strip();
        }
    }
}
