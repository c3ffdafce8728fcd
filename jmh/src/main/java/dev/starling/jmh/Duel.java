package dev.starling.jmh;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Measures us and a peer by turns, so that whatever else the machine does meets both. First the peer's fastest way is
 * found among its environments and variants; that one is then paired with us.
 */
final class Duel implements AutoCloseable {
    /** Long enough that the threads of whoever ran before have gone to sleep. */
    private static final long PAUSE_MILLIS = 40;
    private static final double SAMPLE_NANOS = 300e6;

    private final int threads;
    private final Clock clock;
    private final int pairs;
    private final long warmupMillis;
    private final Consumer<String> progress;
    private final Map<Contender, List<WorkerProcess>> processes = new EnumMap<>(Contender.class);

    /** Makes a duel whose processes start when first needed. */
    Duel(int threads, Clock clock, int pairs, long warmupMillis, Consumer<String> progress) {
        this.threads = threads;
        this.clock = clock;
        this.pairs = pairs;
        this.warmupMillis = warmupMillis;
        this.progress = progress;
    }

    /** Compares us with each peer that can do the workload. */
    List<Comparison> compare(Workload workload) {
        List<Comparison> comparisons = new ArrayList<>();
        for (Contender peer : List.of(Contender.PYTORCH, Contender.ONEDNN)) {
            Way best = best(peer, workload);
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

    private Comparison pair(Workload workload, Contender peer, Way theirWay) {
        WorkerProcess us = processes(Contender.STARLING).getFirst();
        WorkerProcess them = theirWay.process;
        us.prepare(workload, us.variants(workload).getFirst());
        long ourNanos = us.warm(warmupMillis);
        them.prepare(workload, theirWay.variant);
        long theirNanos = them.warm(warmupMillis);
        double[] ours = new double[pairs];
        double[] theirs = new double[pairs];
        double[] ratios = new double[pairs];
        for (int i = 0; i < pairs; i++) {
            progress.accept(workload.name() + " beside " + peer + ", pair " + (i + 1) + " of " + pairs);
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
        return new Comparison(workload, peer, theirWay.toString(),
            workload.unit().of(workload.work(), median(ours)),
            workload.unit().of(workload.work(), median(theirs)), median(ratios));
    }

    /** Finds the peer's fastest way, by turns among all of them. Returns null if it has none. */
    private Way best(Contender peer, Workload workload) {
        List<Way> ways = new ArrayList<>();
        for (WorkerProcess process : processes(peer)) {
            process.variants(workload).forEach(variant -> ways.add(new Way(process, variant)));
        }
        int rounds = ways.size() > 1 ? 3 : 0;
        for (int round = 0; round < rounds; round++) {
            for (Way way : ways) {
                progress.accept(workload.name() + ": looking for the fastest way of " + peer + ", " + way);
                pause();
                way.process.prepare(workload, way.variant);
                way.times[round] = way.process.warm(warmupMillis / 4);
                way.process.release();
            }
        }
        return ways.stream().min(Comparator.comparingDouble(way -> median(way.times))).orElse(null);
    }

    private List<WorkerProcess> processes(Contender contender) {
        return processes.computeIfAbsent(contender, who -> who.settings(threads).stream()
            .map(settings -> new WorkerProcess(who, threads, clock, settings)).toList());
    }

    /** Returns the time of one run, over as many as fill a sample. */
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

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    /** A process with its environment, and one of its variants. */
    private static final class Way {
        private final WorkerProcess process;
        private final String variant;
        private final double[] times = new double[3];

        Way(WorkerProcess process, String variant) {
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
