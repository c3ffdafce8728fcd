package dev.starling.jmh.cluster;

import static dev.starling.jmh.Statistics.median;

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
    private final Map<Implementation, List<ProcessGroup>> groups = new LinkedHashMap<>();

    ClusterComparison(Path directory, Path openMpi) {
        this.directory = directory;
        this.openMpi = openMpi;
    }

    /** Starts the processes of all variants of an implementation, and waits until they are ready. */
    void add(Implementation implementation, Measure measure, int world) {
        List<ProcessGroup> started = groups.computeIfAbsent(implementation, p -> new ArrayList<>());
        for (Variant variant : implementation.variants(measure)) {
            Path own = directory.resolve(implementation.name() + started.size());
            ProcessGroup group = new ProcessGroup(implementation, variant, world, own, openMpi);
            started.add(group);
            // One variant after the other: processes that start together compete for the cores.
            ready(group).time(measure, FIRST_BYTES, 1);
            ready(group).warmUpJit(measure, measure == Measure.ALL_REDUCE ? JIT_WARM_UP_BYTES : FIRST_BYTES);
        }
    }

    /** Returns the comparison of each of Starling's implementations with each of its peers. */
    List<Finding> run(Measure measure, long bytes, int rounds, long sampleMillis, long warmupMillis) {
        List<Participant> participants = new ArrayList<>();
        for (List<ProcessGroup> variants : groups.values()) {
            if (!variants.isEmpty()) {
                variants.forEach(variant -> settle(variant, measure, bytes));
                participants.add(new Participant(fastest(variants, measure, bytes, warmupMillis), rounds));
            }
        }
        for (Participant participant : participants) {
            double nanos = ready(participant.group).warm(measure, bytes, warmupMillis);
            participant.runs = (int) Math.clamp(sampleMillis * 1e6 / nanos, 2, 1_000_000);
        }
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < participants.size(); i++) {
                Participant participant = participants.get((i + round) % participants.size());
                participant.nanos[round] = ready(participant.group).time(measure, bytes, participant.runs);
            }
        }
        List<Finding> findings = new ArrayList<>();
        for (Participant ours : participants) {
            for (Participant peer : participants) {
                if (peer.group.implementation().isPeerOf(ours.group.implementation())) {
                    findings.add(compare(measure, bytes, ours, peer));
                }
            }
        }
        return findings;
    }

    private ProcessGroup fastest(List<ProcessGroup> variants, Measure measure, long bytes, long warmupMillis) {
        if (variants.size() == 1) {
            return variants.getFirst();
        }
        Map<ProcessGroup, double[]> times = new LinkedHashMap<>();
        variants.forEach(variant -> times.put(variant, new double[TRIALS]));
        variants.forEach(variant -> ready(variant).warm(measure, bytes, warmupMillis / 6));
        for (int trial = 0; trial < TRIALS; trial++) {
            for (ProcessGroup variant : variants) {
                times.get(variant)[trial] = ready(variant).warm(measure, bytes, warmupMillis / 6);
            }
        }
        return times.entrySet().stream().min(Comparator.comparingDouble(e -> median(e.getValue()))).orElseThrow()
            .getKey();
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
