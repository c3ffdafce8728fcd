package dev.starling.jmh.cluster;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Measures parties by turns, so that whatever else the machine does meets all. First each party's fastest way is found;
 * those then take part.
 */
final class Contest implements AutoCloseable {
    private static final int TRIALS = 3;
    private static final int FIRST_BYTES = 32;
    private static final int SEASON_BYTES = 64 << 10;
    private static final int LARGE_BYTES = 1 << 20;

    private final Path directory;
    private final Path openMpi;
    private final Map<Party, List<Crew>> crews = new LinkedHashMap<>();

    Contest(Path directory, Path openMpi) {
        this.directory = directory;
        this.openMpi = openMpi;
    }

    /** Starts a party's processes, and waits until they are there. */
    void enter(Party party, Measure measure, int world) {
        List<Crew> started = crews.computeIfAbsent(party, p -> new ArrayList<>());
        for (Way way : party.ways(measure)) {
            Path own = directory.resolve(party.name() + started.size());
            Crew crew = new Crew(party, way, world, own, openMpi);
            started.add(crew);
            // One after the other, or all starting together would take the cores from each other.
            breath(crew).time(measure, FIRST_BYTES, 1);
            breath(crew).season(measure, measure == Measure.ALL_REDUCE ? SEASON_BYTES : FIRST_BYTES);
        }
    }

    /** Returns how each of ours compares with each of its peers. */
    List<Finding> run(Measure measure, long bytes, int rounds, long sampleMillis, long warmupMillis) {
        List<Entrant> entrants = new ArrayList<>();
        for (List<Crew> ways : crews.values()) {
            if (!ways.isEmpty()) {
                ways.forEach(way -> settle(way, measure, bytes));
                entrants.add(new Entrant(fastest(ways, measure, bytes, warmupMillis), rounds));
            }
        }
        for (Entrant entrant : entrants) {
            double nanos = breath(entrant.crew).warm(measure, bytes, warmupMillis);
            entrant.runs = (int) Math.clamp(sampleMillis * 1e6 / nanos, 2, 1_000_000);
        }
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < entrants.size(); i++) {
                Entrant entrant = entrants.get((i + round) % entrants.size());
                entrant.nanos[round] = breath(entrant.crew).time(measure, bytes, entrant.runs);
            }
        }
        List<Finding> findings = new ArrayList<>();
        for (Entrant ours : entrants) {
            for (Entrant peer : entrants) {
                if (peer.crew.party().isBeside(ours.crew.party())) {
                    findings.add(compare(measure, bytes, ours, peer));
                }
            }
        }
        return findings;
    }

    private Crew fastest(List<Crew> ways, Measure measure, long bytes, long warmupMillis) {
        if (ways.size() == 1) {
            return ways.getFirst();
        }
        Map<Crew, double[]> times = new LinkedHashMap<>();
        ways.forEach(way -> times.put(way, new double[TRIALS]));
        ways.forEach(way -> breath(way).warm(measure, bytes, warmupMillis / 6));
        for (int trial = 0; trial < TRIALS; trial++) {
            for (Crew way : ways) {
                times.get(way)[trial] = breath(way).warm(measure, bytes, warmupMillis / 6);
            }
        }
        return times.entrySet().stream().min(Comparator.comparingDouble(e -> median(e.getValue()))).orElseThrow()
            .getKey();
    }

    /** Lets the compiler finish what large sums run, which are too few to be compiled while they are warmed. */
    private void settle(Crew crew, Measure measure, long bytes) {
        if (crew.party().isOurs() && bytes >= LARGE_BYTES) {
            breath(crew).settle(measure, bytes);
        }
    }

    /** Returns the crew, after the others had a moment to keep their connections alive. */
    private Crew breath(Crew next) {
        try {
            for (List<Crew> started : crews.values()) {
                for (Crew crew : started) {
                    if (crew != next) {
                        crew.breathe();
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
        return next;
    }

    private static Finding compare(Measure measure, long bytes, Entrant ours, Entrant peer) {
        double[] ratios = new double[ours.nanos.length];
        for (int i = 0; i < ratios.length; i++) {
            ratios[i] = peer.nanos[i] / ours.nanos[i];
        }
        int world = ours.crew.world();
        return new Finding(measure, world, bytes,
            new Finding.Name(ours.crew.party().label(), ours.crew.way().name()),
            measure.value(world, bytes, median(ours.nanos)), peer.crew.party().label(),
            measure.value(world, bytes, median(peer.nanos)), median(ratios), peer.crew.way().name());
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    @Override
    public void close() {
        crews.values().forEach(started -> started.forEach(Crew::close));
    }

    /** A crew that takes part. */
    private static final class Entrant {
        private final Crew crew;
        private final double[] nanos;
        private int runs;

        Entrant(Crew crew, int rounds) {
            this.crew = crew;
            nanos = new double[rounds];
        }
    }
}
