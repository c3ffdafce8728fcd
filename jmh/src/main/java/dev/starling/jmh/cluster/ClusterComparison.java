package dev.starling.jmh.cluster;

import static dev.starling.jmh.Statistics.median;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Measures implementations in alternating runs, so that other load on the machine affects all of them. First it finds
 * the fastest variant of each; then it measures those.
 */
final class ClusterComparison implements AutoCloseable {
    private static final int TRIALS = 3;
    private static final int FIRST_BYTES = 32;
    private static final int JIT_WARM_UP_BYTES = 64 << 10;
    private static final int LARGE_BYTES = 1 << 20;

    private final Path directory;
    private final Path openMpi;
    private final Hosts hosts;
    private final PrintStream table;
    private final Map<Implementation, List<ProcessGroup>> groups = new LinkedHashMap<>();
    private boolean failed;

    ClusterComparison(Path directory, Path openMpi, Hosts hosts, PrintStream table) {
        this.directory = directory;
        this.openMpi = openMpi;
        this.hosts = hosts;
        this.table = table;
    }

    /** Starts the processes of all variants of an implementation, and waits until they are ready. */
    void add(Implementation implementation, Measure measure, int world) {
        List<ProcessGroup> started = groups.computeIfAbsent(implementation, p -> new ArrayList<>());
        for (Variant variant : implementation.variants(measure)) {
            Path own = directory.resolve(implementation.name() + started.size());
            ProcessGroup group = new ProcessGroup(implementation, variant, world, own, openMpi, hosts);
            started.add(group);
            // One variant after the other: processes that start together compete for the cores.
            attempt(group, () -> {
                ready(group).time(measure, FIRST_BYTES, 1);
                ready(group).warmUpJit(measure, measure == Measure.ALL_REDUCE ? JIT_WARM_UP_BYTES : FIRST_BYTES);
            });
        }
    }

    /** Runs an order of a group; if the group fails, reports why, and leaves it out from now on. */
    private void attempt(ProcessGroup group, Runnable order) {
        try {
            order.run();
        } catch (IllegalStateException e) {
            if (Thread.currentThread().isInterrupted()) {
                throw e;
            }
            failed = true;
            table.println("FAILED, and left out from here on: " + e.getMessage());
            groups.get(group.implementation()).remove(group);
            group.close();
        }
    }

    /** Returns whether an implementation has failed. */
    boolean hasFailed() {
        return failed;
    }

    /** Returns the comparison of each of Starling's implementations with each of its peers. */
    List<Finding> run(Measure measure, long bytes, int rounds, long sampleMillis, long warmupMillis) {
        List<Participant> participants = new ArrayList<>();
        for (List<ProcessGroup> variants : groups.values()) {
            List.copyOf(variants).forEach(variant -> attempt(variant, () -> settle(variant, measure, bytes)));
            if (!variants.isEmpty()) {
                ProcessGroup fastest = fastest(variants, measure, bytes, warmupMillis);
                if (fastest != null) {
                    participants.add(new Participant(fastest, rounds));
                }
            }
        }
        for (Participant each : participants) {
            attempt(each.group, () -> {
                double nanos = ready(each.group).warm(measure, bytes, warmupMillis);
                each.runs = (int) Math.clamp(sampleMillis * 1e6 / nanos, 2, 1_000_000);
            });
        }
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < participants.size(); i++) {
                Participant each = participants.get((i + round) % participants.size());
                int now = round;
                if (isLeft(each)) {
                    attempt(each.group, () -> each.nanos[now] =
                        ready(each.group).time(measure, bytes, each.runs, sampleMillis));
                }
            }
        }
        List<Finding> findings = new ArrayList<>();
        for (Participant ours : participants) {
            for (Participant peer : participants) {
                if (peer.group.implementation().isPeerOf(ours.group.implementation()) && isLeft(ours)
                        && isLeft(peer)) {
                    findings.add(compare(measure, bytes, ours, peer));
                }
            }
        }
        return findings;
    }

    /** Returns whether a participant has not failed. */
    private boolean isLeft(Participant participant) {
        return groups.get(participant.group.implementation()).contains(participant.group);
    }

    /** Returns the fastest variant, or {@code null} if all have failed. */
    private ProcessGroup fastest(List<ProcessGroup> variants, Measure measure, long bytes, long warmupMillis) {
        if (variants.size() == 1) {
            return variants.getFirst();
        }
        Map<ProcessGroup, double[]> times = new LinkedHashMap<>();
        variants.forEach(variant -> times.put(variant, new double[TRIALS]));
        for (int trial = -1; trial < TRIALS; trial++) {
            int at = Math.max(0, trial);
            for (ProcessGroup variant : List.copyOf(variants)) {
                attempt(variant, () -> times.get(variant)[at] =
                    ready(variant).warm(measure, bytes, warmupMillis / 6));
            }
        }
        return variants.stream().min(Comparator.comparingDouble(v -> median(times.get(v)))).orElse(null);
    }

    /** Lets the JIT compiler finish the code of large sums, which run too rarely during the warm-up. */
    private void settle(ProcessGroup group, Measure measure, long bytes) {
        if (group.implementation().isOurs() && bytes >= LARGE_BYTES) {
            ready(group).settle(measure, bytes);
        }
    }

    /** Returns the processes to run next, after the others have had a moment to keep their connections alive. */
    private ProcessGroup ready(ProcessGroup next) {
        try {
            for (List<ProcessGroup> started : groups.values()) {
                for (ProcessGroup group : started) {
                    if (group != next) {
                        group.keepAlive();
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
        return next;
    }

    private static Finding compare(Measure measure, long bytes, Participant ours, Participant peer) {
        double[] ratios = new double[ours.nanos.length];
        for (int i = 0; i < ratios.length; i++) {
            ratios[i] = peer.nanos[i] / ours.nanos[i];
        }
        int world = ours.group.world();
        return new Finding(measure, world, bytes,
            new Finding.Name(ours.group.implementation().label(), ours.group.variant().name()),
            measure.value(world, bytes, median(ours.nanos)), peer.group.implementation().label(),
            measure.value(world, bytes, median(peer.nanos)), median(ratios), peer.group.variant().name());
    }

    @Override
    public void close() {
        groups.values().forEach(started -> started.forEach(ProcessGroup::close));
    }

    /** The processes that take part in a measurement. */
    private static final class Participant {
        private final ProcessGroup group;
        private final double[] nanos;
        private int runs;

        Participant(ProcessGroup group, int rounds) {
            this.group = group;
            nanos = new double[rounds];
        }
    }
}
