package dev.starling.jmh.cluster;

import static dev.starling.jmh.Statistics.median;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** How well the training of a convolutional network scales to several processes. */
final class Training {
    private static final int BATCH = 32;
    private static final int STEPS = 40;
    /** Samples of training are longer by this factor: after a stop, the first steps of a process are slower. */
    private static final int TRAINING_SAMPLES = 10;
    /** Methods that run once in a step are compiled late. */
    private static final int SETTLING_SECONDS = 30;

    private final Path directory;
    private final int rounds;
    private final long sampleMillis;
    private final long warmupMillis;
    private final PrintStream table;
    private final List<String> json = new ArrayList<>();

    Training(Path directory, int rounds, long sampleMillis, long warmupMillis, PrintStream table) {
        this.directory = directory;
        this.rounds = rounds;
        this.sampleMillis = sampleMillis;
        this.warmupMillis = warmupMillis;
        this.table = table;
    }

    /** Returns the results as JSON objects. */
    List<String> json() {
        return json;
    }

    /**
     * Measures the share of a step's communication that the backward pass hides. Timed waits replace the computation,
     * so that the communicating threads have a core; they last as long as the parts of a real step. The result compares
     * how much longer a step takes than one without communication, when all gradients are reduced after it, and when
     * each is reduced as soon as it is final.
     */
    void overlap(Implementation implementation, int world) {
        for (Variant variant : implementation.variants(Measure.STEP_OVERLAPPED)) {
            Path shared = directory.resolve("overlap" + implementation + variant.name() + world);
            try (ProcessGroup group = new ProcessGroup(implementation, variant, world, shared, directory,
                    Hosts.loopback())) {
                double[][] nanos = new double[3][rounds];
                Measure[] kinds = {Measure.STEP_ALONE, Measure.STEP_LATE, Measure.STEP_OVERLAPPED};
                for (Measure kind : kinds) {
                    group.warm(kind, BATCH, warmupMillis);
                }
                for (int round = 0; round < rounds; round++) {
                    for (int k = 0; k < kinds.length; k++) {
                        nanos[k][round] = group.time(kinds[k], BATCH, STEPS);
                    }
                }
                double alone = median(nanos[0]) / 1e6;
                double all = median(nanos[1]) / 1e6 - alone;
                double seen = median(nanos[2]) / 1e6 - alone;
                double hidden = 1 - seen / all;
                table.printf("overlap cnn %8d procs  %-24s %5.1f %% of %.2f ms hidden behind a step of %.1f ms%n",
                    world, name(implementation, variant), 100 * hidden, all, alone);
                json.add(String.format(Locale.ROOT, "{\"case\":\"overlap\",\"processes\":%d,\"implementation\":\"%s\","
                    + "\"hidden\":%.3f,\"communicationMs\":%.3f,\"stepMs\":%.3f}", world,
                    name(implementation, variant), hidden, all, alone));
            }
        }
    }

    /** Measures the images per second of all processes together, compared with a single process. */
    void throughput(Implementation implementation, int world) {
        List<ProcessGroup> groups = new ArrayList<>();
        try {
            List<Variant> variants = implementation.variants(Measure.TRAIN);
            int[] runs = new int[1 + variants.size()];
            for (int c = 0; c < runs.length; c++) {
                // One after the other: members that start together may take too long to find each other.
                keepAlive(groups);
                Variant variant = c == 0 ? Variant.of("ring") : variants.get(c - 1);
                Path shared = directory.resolve(c == 0 ? "train1" : "train" + variant.name() + world);
                ProcessGroup group = new ProcessGroup(implementation, variant, c == 0 ? 1 : world, shared, directory,
                    Hosts.loopback());
                groups.add(group);
                double nanos = group.settle(Measure.TRAIN, BATCH, SETTLING_SECONDS);
                runs[c] = (int) Math.clamp(TRAINING_SAMPLES * 1e6 * sampleMillis / nanos, 2, 10_000);
            }
            double[][] rates = new double[runs.length][rounds];
            for (int round = 0; round < rounds; round++) {
                for (int c = 0; c < runs.length; c++) {
                    ProcessGroup group = groups.get(c);
                    keepAlive(groups);
                    rates[c][round] = group.world() * BATCH * 1e9 / group.time(Measure.TRAIN, BATCH, runs[c],
                        TRAINING_SAMPLES * sampleMillis);
                }
            }
            double single = median(rates[0]);
            for (int c = 1; c < runs.length; c++) {
                double rate = median(rates[c]);
                String name = name(implementation, groups.get(c).variant());
                table.printf("train cnn %10d procs  %-24s %8.1f img/s, %.2f times one process's %.1f%n", world, name,
                    rate, rate / single, single);
                json.add(String.format(Locale.ROOT, "{\"case\":\"train\",\"processes\":%d,\"implementation\":\"%s\","
                    + "\"unit\":\"img/s\",\"ours\":%.1f,\"one\":%.1f}", world, name, rate, single));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } finally {
            groups.forEach(ProcessGroup::close);
        }
    }

    private static void keepAlive(List<ProcessGroup> groups) throws InterruptedException {
        for (ProcessGroup group : groups) {
            group.keepAlive();
        }
    }

    private static String name(Implementation implementation, Variant variant) {
        return implementation.label() + " " + variant.name();
    }
}
