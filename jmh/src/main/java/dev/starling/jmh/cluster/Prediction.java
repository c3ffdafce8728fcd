package dev.starling.jmh.cluster;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * Measures all-reduces over TCP between two processes, calibrates an {@link AllReduceModel} with them, compares its
 * predictions for other numbers of processes with measurements, and prints what it predicts for large clusters.
 */
final class Prediction {
    private static final int[] SIZES = {1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    /** Every other size, measured between two processes, calibrates the model, and so does the largest. */
    private static final int[] CALIBRATION = {0, 2, 4, 6, 7};
    private static final int MAX_GATHERED = 16 << 10;
    private static final int LARGE = 4 << 20;
    private static final int ROUNDS = 5;
    private static final int RANKS_OF_A_HOST = 8;
    /** At which the processes of a host reduce in shared memory, for the table of large clusters. */
    private static final double HOST_BYTES_PER_NANO = 8;

    private final Path directory;
    private final PrintStream table;
    private final long sampleMillis;
    private final long warmupMillis;

    Prediction(Path directory, PrintStream table, long sampleMillis, long warmupMillis) {
        this.directory = directory;
        this.table = table;
        this.sampleMillis = sampleMillis;
        this.warmupMillis = warmupMillis;
    }

    /** Measures and predicts for numbers of processes on this machine. */
    void run(List<Integer> worlds) {
        double[] two = measure(2);
        double[] sizes = new double[CALIBRATION.length];
        double[] nanos = new double[CALIBRATION.length];
        for (int i = 0; i < sizes.length; i++) {
            // A small sum is one step, a ring of two ranks two with half of the elements; pieces that overlap cost
            // another step without elements, and of the steps only one latency each.
            int bytes = SIZES[CALIBRATION[i]];
            double measured = two[CALIBRATION[i]];
            boolean small = bytes <= MAX_GATHERED;
            sizes[i] = bytes / (small ? 1.0 : 2);
            nanos[i] = small ? measured : (measured + (AllReduceModel.overlaps(sizes[i]) ? two[0] : 0)) / 2;
        }
        AllReduceModel model = new AllReduceModel(AllReduceModel.measured(sizes, nanos));
        table.printf("%5s %10s %12s %12s %9s%n", "procs", "KiB", "measured", "predicted", "error");
        double perProcessor = 2.0 / Math.min(2, Runtime.getRuntime().availableProcessors());
        for (int world : worlds) {
            double[] measured = world == 2 ? two : measure(world);
            double share = perProcessor * world / Math.max(2, Math.min(world, Runtime.getRuntime()
                    .availableProcessors()));
            for (int i = 0; i < SIZES.length; i++) {
                double predicted = model.sharedBy(share).nanos(world, SIZES[i]);
                table.printf("%5d %10d %9.1f µs %9.1f µs %8.0f%%%n", world, SIZES[i] >> 10, measured[i] / 1e3,
                        predicted / 1e3, 100 * (predicted / measured[i] - 1));
            }
        }
        large(nanos[0], sizes[sizes.length - 1] / nanos[sizes.length - 1]);
    }

    private double[] measure(int world) {
        double[] medians = new double[SIZES.length];
        try (ProcessGroup group = new ProcessGroup(Implementation.STARLING_PLAIN, Variant.of(""), world,
                directory.resolve("model" + world), directory.resolve("openmpi"), Hosts.loopback())) {
            group.warmUpJit(Measure.ALL_REDUCE, SIZES[0]);
            group.settle(Measure.ALL_REDUCE, LARGE);
            for (int i = 0; i < SIZES.length; i++) {
                double expected = group.warm(Measure.ALL_REDUCE, SIZES[i], warmupMillis);
                int runs = (int) Math.clamp(sampleMillis * 1e6 / expected, 2, 1_000_000);
                double[] nanos = new double[ROUNDS];
                for (int round = 0; round < ROUNDS; round++) {
                    nanos[round] = group.time(Measure.ALL_REDUCE, SIZES[i], runs);
                }
                Arrays.sort(nanos);
                medians[i] = nanos[ROUNDS / 2];
            }
        }
        return medians;
    }

    /** Prints milliseconds for large clusters, with the latency and the bandwidth of a process that were measured. */
    private void large(double latencyNanos, double processBytesPerNano) {
        table.printf("A step takes %.1f µs, and a process sends %.2f GB/s at most.%n", latencyNanos / 1e3,
                processBytesPerNano);
        table.printf("%9s %6s %12s %12s %12s %12s%n", "Gbit/s", "ranks", "64 KiB", "1 MiB", "100 MB", "100 MB/host");
        for (double gigabits : new double[] {10, 100}) {
            double bytesPerNano = Math.min(gigabits / 8, processBytesPerNano);
            AllReduceModel model = new AllReduceModel(AllReduceModel.link(latencyNanos, bytesPerNano));
            for (int ranks = 8; ranks <= 1024; ranks *= 2) {
                table.printf("%9.0f %6d %9.2f ms %9.2f ms %9.1f ms %9.1f ms%n", gigabits, ranks,
                        model.nanos(ranks, 64 << 10) / 1e6, model.nanos(ranks, 1 << 20) / 1e6,
                        model.nanos(ranks, 100e6) / 1e6, ranks == RANKS_OF_A_HOST ? 2 * 100e6 / HOST_BYTES_PER_NANO
                        / 1e6 : model.byHost(ranks / RANKS_OF_A_HOST, 100e6, HOST_BYTES_PER_NANO) / 1e6);
            }
        }
    }
}
