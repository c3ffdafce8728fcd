package dev.starling.jmh.cluster;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** How well training of a convolutional network goes on several processes. */
final class Training {
    private static final int BATCH = 32;
    private static final int STEPS = 40;

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

    /** Returns what was found, as JSON objects. */
    List<String> json() {
        return json;
    }

    /**
     * Measures which share of the communication of a step is hidden behind the backward pass. Timed waits stand in for
     * computing, so that there is a core for who communicates; they are as long as a real step's parts were. What is
     * measured is by how much longer a step gets when all gradients are reduced after it, and when each is reduced as
     * soon as it is there, than when nobody reduces anything with others.
     */
    void overlap(Party party, int world) {
        for (Way way : party.ways(Measure.STEP_OVERLAPPED)) {
            try (Crew crew = new Crew(party, way, world, directory.resolve("overlap" + party + way.name() + world),
                    directory)) {
                double[][] nanos = new double[3][rounds];
                Measure[] kinds = {Measure.STEP_ALONE, Measure.STEP_LATE, Measure.STEP_OVERLAPPED};
                for (Measure kind : kinds) {
                    crew.warm(kind, BATCH, warmupMillis);
                }
                for (int round = 0; round < rounds; round++) {
                    for (int k = 0; k < kinds.length; k++) {
                        nanos[k][round] = crew.time(kinds[k], BATCH, STEPS);
                    }
                }
                double alone = median(nanos[0]) / 1e6;
                double all = median(nanos[1]) / 1e6 - alone;
                double seen = median(nanos[2]) / 1e6 - alone;
                double hidden = 1 - seen / all;
                table.printf("overlap cnn %8d procs  %-24s %5.1f %% of %.2f ms hidden behind a step of %.1f ms%n",
                    world, name(party, way), 100 * hidden, all, alone);
                json.add(String.format(Locale.ROOT, "{\"case\":\"overlap\",\"processes\":%d,\"who\":\"%s\","
                    + "\"hidden\":%.3f,\"communicationMs\":%.3f,\"stepMs\":%.3f}", world, name(party, way), hidden, all,
                    alone));
            }
        }
    }

    /** Measures how many images a second all processes train on together, beside one process by itself. */
    void throughput(Party party, int world) {
        List<Crew> crews = new ArrayList<>();
        try {
            List<Way> ways = party.ways(Measure.TRAIN);
            int[] runs = new int[1 + ways.size()];
            for (int c = 0; c < runs.length; c++) {
                // One after the other: members that all start together may take too long to find each other.
                breathe(crews);
                Way way = c == 0 ? Way.of("ring") : ways.get(c - 1);
                Path shared = directory.resolve(c == 0 ? "train1" : "train" + way.name() + world);
                Crew crew = new Crew(party, way, c == 0 ? 1 : world, shared, directory);
                crews.add(crew);
                runs[c] = (int) Math.clamp(2e6 * sampleMillis / crew.settle(Measure.TRAIN, BATCH), 2, 10_000);
            }
            double[][] rates = new double[runs.length][rounds];
            for (int round = 0; round < rounds; round++) {
                for (int c = 0; c < runs.length; c++) {
                    Crew crew = crews.get(c);
                    breathe(crews);
                    rates[c][round] = crew.world() * BATCH * 1e9 / crew.time(Measure.TRAIN, BATCH, runs[c]);
                }
            }
            double single = median(rates[0]);
            for (int c = 1; c < runs.length; c++) {
                double rate = median(rates[c]);
                String who = name(party, crews.get(c).way());
                table.printf("train cnn %10d procs  %-24s %8.1f img/s, %.2f times one process's %.1f%n", world, who,
                    rate, rate / single, single);
                json.add(String.format(Locale.ROOT, "{\"case\":\"train\",\"processes\":%d,\"who\":\"%s\","
                    + "\"unit\":\"img/s\",\"ours\":%.1f,\"one\":%.1f}", world, who, rate, single));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } finally {
            crews.forEach(Crew::close);
        }
    }

    private static void breathe(List<Crew> crews) throws InterruptedException {
        for (Crew crew : crews) {
            crew.breathe();
        }
    }

    private static String name(Party party, Way way) {
        return party.label() + " " + way.name();
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }
}
