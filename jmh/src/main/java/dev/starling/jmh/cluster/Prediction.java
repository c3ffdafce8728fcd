package dev.starling.jmh.cluster;

import dev.starling.jmh.Statistics;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * Measures all-reduces over TCP between two processes, calibrates an {@link AllReduceModel} with them, compares its
 * predictions for other numbers of processes with measurements, and prints what it predicts for large clusters.
 */
final class Prediction {
    private static final int[] SIZES = {1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    /** The size that, measured between more than two, calibrates how long these wait for processors they share. */
    private static final int SMALL = 0;
    /** The size that calibrates how much longer a byte takes on processors they share. */
    private static final int LARGE = 6;
    private static final int MAX_GATHERED = 16 << 10;
    private static final int SETTLING = 4 << 20;
    /** The default number of rounds, whose median counts. */
    static final int ROUNDS = 15;
    private static final int RANKS_OF_A_HOST = 8;
    /** At which the processes of a host reduce in shared memory, for the table of large clusters. */
    private static final double HOST_BYTES_PER_NANO = 8;

    private final Path directory;
    private final PrintStream table;
    private final int rounds;
    private final long sampleMillis;
    private final long warmupMillis;
    private final List<String> json = new ArrayList<>();

    Prediction(Path directory, PrintStream table, int rounds, long sampleMillis, long warmupMillis) {
        this.directory = directory;
        this.table = table;
        this.rounds = rounds;
        this.sampleMillis = sampleMillis;
        this.warmupMillis = warmupMillis;
    }

    /** Returns the results as JSON objects. */
    List<String> json() {
        return json;
    }

    /** Measures and predicts for numbers of processes on this machine. */
    void run(List<Integer> worlds) {
        SortedMap<Integer, double[]> measured = measure(worlds);
        double[] two = measured.get(2);
        double[] sizes = new double[SIZES.length];
        double[] nanos = new double[SIZES.length];
        for (int i = 0; i < sizes.length; i++) {
            // A small sum is one step, a ring of two ranks two with half of the elements; pieces that overlap cost
            // another step without elements, and of the steps only one latency each.
            boolean small = SIZES[i] <= MAX_GATHERED;
            sizes[i] = SIZES[i] / (small ? 1.0 : 2);
            nanos[i] = small ? two[i] : (two[i] + (AllReduceModel.overlaps(sizes[i]) ? two[SMALL] : 0)) / 2;
        }
        AllReduceModel apart = AllReduceModel.of(new AllReduceModel.Measured(sizes, nanos));
        table.printf("%5s %10s %12s %12s %9s%n", "procs", "KiB", "measured", "predicted", "error");
        table.println("(× marks what calibrates the model)");
        int processors = Math.max(2, Runtime.getRuntime().availableProcessors());
        measured.forEach((world, times) -> compare(world, times,
                apart.sharing(processors, world, sum(times, SMALL), sum(times, LARGE))));
        large(nanos[0], sizes[sizes.length - 1] / nanos[sizes.length - 1]);
    }

    private static AllReduceModel.Sum sum(double[] nanos, int size) {
        return new AllReduceModel.Sum(SIZES[size], nanos[size]);
    }

    private void compare(int world, double[] measured, AllReduceModel model) {
        boolean shares = world > model.processors();
        for (int i = 0; i < SIZES.length; i++) {
            double predicted = model.nanos(world, SIZES[i]);
            boolean calibrates = world == 2 || shares && (i == SMALL || i == LARGE);
            table.printf("%5d %10d %9.1f µs %9.1f µs %9s%n", world, SIZES[i] >> 10, measured[i] / 1e3,
                    predicted / 1e3, calibrates ? "×" : "%+.0f%%".formatted(100 * (predicted / measured[i] - 1)));
            json.add(String.format(Locale.ROOT, "{\"case\":\"model\",\"processes\":%d,\"bytes\":%d,\"unit\":\"µs\","
                    + "\"measured\":%.3f,\"predicted\":%.3f,\"calibrates\":%b}", world, SIZES[i], measured[i] / 1e3,
                    predicted / 1e3, calibrates));
        }
        if (shares) {
            table.printf("A process waits %.1f µs for a processor for each message, and a byte takes %.2f times"
                    + " as long.%n", model.waitNanos() / 1e3, model.slowdown());
        }
    }

    /**
     * Returns the nanoseconds of each size for each number of processes, two among them. All take turns, sample by
     * sample: a virtual machine's processors may move apart, and then everything takes several times as long.
     */
    private SortedMap<Integer, double[]> measure(List<Integer> worlds) {
        SortedMap<Integer, ProcessGroup> groups = new TreeMap<>();
        try {
            for (int world : Stream.concat(Stream.of(2), worlds.stream()).distinct().toList()) {
                ProcessGroup group = new ProcessGroup(Implementation.STARLING_PLAIN, Variant.of(""), world,
                        directory.resolve("model" + world), directory.resolve("openmpi"), Hosts.loopback());
                groups.put(world, group);
                group.warmUpJit(Measure.ALL_REDUCE, SIZES[0]);
                group.settle(Measure.ALL_REDUCE, SETTLING);
            }
            SortedMap<Integer, double[]> medians = new TreeMap<>();
            groups.keySet().forEach(world -> medians.put(world, new double[SIZES.length]));
            for (int i = 0; i < SIZES.length; i++) {
                int size = i;
                measure(groups, SIZES[size]).forEach((world, nanos) -> medians.get(world)[size] = nanos);
            }
            return medians;
        } finally {
            groups.values().forEach(ProcessGroup::close);
        }
    }

    private SortedMap<Integer, Double> measure(SortedMap<Integer, ProcessGroup> groups, int bytes) {
        SortedMap<Integer, Integer> runs = new TreeMap<>();
        SortedMap<Integer, double[]> samples = new TreeMap<>();
        groups.forEach((world, group) -> {
            double expected = group.warm(Measure.ALL_REDUCE, bytes, warmupMillis);
            runs.put(world, (int) Math.clamp(sampleMillis * 1e6 / expected, 2, 1_000_000));
            samples.put(world, new double[rounds]);
        });
        for (int round = 0; round < rounds; round++) {
            int sample = round;
            groups.forEach((world, group) -> samples.get(world)[sample] =
                    group.time(Measure.ALL_REDUCE, bytes, runs.get(world), sampleMillis));
        }
        SortedMap<Integer, Double> medians = new TreeMap<>();
        samples.forEach((world, nanos) -> medians.put(world, Statistics.median(nanos)));
        return medians;
    }

    /** Prints milliseconds for large clusters, with the latency and the bandwidth of a process that were measured. */
    private void large(double latencyNanos, double processBytesPerNano) {
        table.printf("A step takes %.1f µs, and a process sends %.2f GB/s at most.%n", latencyNanos / 1e3,
                processBytesPerNano);
        table.printf("%9s %6s %12s %12s %12s %12s%n", "Gbit/s", "ranks", "64 KiB", "1 MiB", "100 MB", "100 MB/host");
        for (double gigabits : new double[] {10, 100}) {
            double bytesPerNano = Math.min(gigabits / 8, processBytesPerNano);
            AllReduceModel model = AllReduceModel.of(AllReduceModel.link(latencyNanos, bytesPerNano));
            for (int ranks = 8; ranks <= 1024; ranks *= 2) {
                Object[] row = {gigabits, ranks, model.nanos(ranks, 64 << 10) / 1e6, model.nanos(ranks, 1 << 20) / 1e6,
                    model.nanos(ranks, 100e6) / 1e6, ranks == RANKS_OF_A_HOST ? 2 * 100e6 / HOST_BYTES_PER_NANO
                    / 1e6 : model.byHost(ranks / RANKS_OF_A_HOST, 100e6, HOST_BYTES_PER_NANO) / 1e6};
                table.printf("%9.0f %6d %9.2f ms %9.2f ms %9.1f ms %9.1f ms%n", row);
                json.add(String.format(Locale.ROOT, "{\"case\":\"large cluster\",\"gigabits\":%.0f,\"ranks\":%d,"
                        + "\"unit\":\"ms\",\"64 KiB\":%.3f,\"1 MiB\":%.3f,\"100 MB\":%.3f,\"100 MB/host\":%.3f}",
                        row));
            }
        }
    }
}
