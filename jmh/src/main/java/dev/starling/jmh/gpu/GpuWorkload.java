package dev.starling.jmh.gpu;

import java.util.ArrayList;
import java.util.List;

/**
 * A workload to measure with Starling and with PyTorch.
 *
 * @param order the workload in words, which {@link GpuCases} and {@code peer.py} parse
 * @param work the work of a run in {@code unit} times seconds; 0 if the time itself is reported
 * @param unit unit of the rate; microseconds if work is 0
 * @param goal the minimal ratio of Starling's rate to PyTorch's or, for an elementwise operation, to that of a copy;
 *     for host time the maximum in microseconds; NaN for no goal
 */
record GpuWorkload(String order, double work, String unit, double goal) {
    private static final String TERA = "TFLOP/s";
    private static final String GIGA = "GB/s";
    private static final String MICROS = "us";

    /** Returns the workload without a goal. */
    GpuWorkload withoutGoal() {
        return new GpuWorkload(order, work, unit, Double.NaN);
    }

    /** Returns the rate for the seconds of a run, or microseconds if work is 0. */
    double rate(double seconds) {
        return work == 0 ? seconds * 1e6 : work / seconds;
    }

    /** Returns whether it is a training step. */
    boolean isTraining() {
        return order.matches("(host )?(mlp|resnet9|resnet18|gpt2) .*");
    }

    /** Returns whether it should be as fast as a copy. */
    boolean isElementwise() {
        return work > 0 && order.matches("(add|gelu|bias|cast|chain) .*");
    }

    /** Returns whether it measures how long the host is busy, without PyTorch. */
    boolean isHostTime() {
        return order.startsWith("host ");
    }

    /** Returns all workloads, small enough for an emulator if {@code tiny}. */
    static List<GpuWorkload> all(boolean tiny) {
        List<GpuWorkload> all = new ArrayList<>();
        products(all, tiny);
        memoryBound(all, tiny);
        training(all, tiny);
        return all;
    }

    private static void products(List<GpuWorkload> all, boolean tiny) {
        long n = tiny ? 16 : 8192;
        for (String type : List.of("bf16", "f16", "f32")) {
            all.add(new GpuWorkload("matmul " + type + " " + n, 2e-12 * n * n * n, TERA, 0.97));
        }
        for (long[] c : tiny ? new long[][] {{2, 4, 4, 6}} : new long[][] {{512, 64, 64, 32}, {512, 256, 256, 8}}) {
            double flop = 3.0 * 2 * 9 * c[0] * c[1] * c[2] * c[3] * c[3];
            all.add(new GpuWorkload("conv bf16 " + words(c), flop / 1e12, TERA, 1));
        }
        long[] a = tiny ? new long[] {2, 2, 8, 8} : new long[] {8, 12, 1024, 64};
        // Two products forward and five backward; the causal mask hides half of each.
        double flop = 7.0 * a[0] * a[1] * a[2] * a[2] * a[3];
        all.add(new GpuWorkload("attention bf16 " + words(a), flop / 1e12, TERA, 1));
        // Starling's own kernels compute these.
        all.add(new GpuWorkload("padded bf16 " + words(a), 2 * flop / 1e12, TERA, 1).withoutGoal());
        long[] l = tiny ? new long[] {3, 2, 4, 5} : new long[] {128, 64, 512, 512};
        all.add(new GpuWorkload("lstm bf16 " + words(l), 3 * 2e-12 * l[0] * l[1] * 4 * l[3] * (l[2] + l[3]), TERA, 1));
    }

    private static void memoryBound(List<GpuWorkload> all, boolean tiny) {
        long columns = tiny ? 64 : 1024;
        long rows = tiny ? 16 : 1 << 16;
        long n = rows * columns;
        for (String type : List.of("f32", "bf16")) {
            double size = n * (type.equals("f32") ? 4 : 2) / 1e9;
            String matrix = " " + type + " " + rows + " " + columns;
            all.add(new GpuWorkload("copy " + type + " " + n, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("add " + type + " " + n, 3 * size, GIGA, 0.9));
            all.add(new GpuWorkload("gelu " + type + " " + n, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("bias" + matrix, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("transpose" + matrix, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("cast " + type + " " + n, size + 8 * n / 1e9, GIGA, 0.9));
            all.add(new GpuWorkload("chain " + type + " " + n, 4 * size, GIGA, 0.9));
            all.add(new GpuWorkload("softmax" + matrix, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("layernorm" + matrix, 2 * size, GIGA, 0.9));
            all.add(new GpuWorkload("sum" + matrix, size, GIGA, 0.9));
        }
        long[] images = tiny ? new long[] {2, 8, 4} : new long[] {512, 64, 32};
        // Forward reads x and writes y; backward reads x and y's gradient and writes x's.
        double size = 5.0 * 2 * images[0] * images[1] * images[2] * images[2];
        all.add(new GpuWorkload("batchnorm bf16 " + words(images), size / 1e9, GIGA, 1));
        all.add(new GpuWorkload("add f32 1", 0, MICROS, 1));
    }

    private static void training(List<GpuWorkload> all, boolean tiny) {
        all.add(new GpuWorkload("host mlp f32 " + (tiny ? "4 8" : "128 1024") + " captured", 0, MICROS, 20));
        for (String mode : List.of("eager", "captured")) {
            all.add(step("mlp f32 " + (tiny ? "4 8" : "128 1024"), tiny ? 4 : 128, "images/s", mode));
            all.add(step("resnet9 bf16 " + (tiny ? "2 2" : "512 32"), tiny ? 2 : 512, "images/s", mode));
            all.add(step("resnet18 bf16 " + (tiny ? "2 4 8" : "512 64 32"), tiny ? 2 : 512, "images/s", mode));
            all.add(step("gpt2 bf16 " + (tiny ? "2 6 8 2 2 11" : "8 1024 768 12 12 50304"), tiny ? 12 : 8192,
                    "tokens/s", mode));
        }
    }

    private static GpuWorkload step(String order, double work, String unit, String mode) {
        return new GpuWorkload(order + " " + mode, work, unit, 1);
    }

    private static String words(long... numbers) {
        StringBuilder words = new StringBuilder();
        for (long n : numbers) {
            words.append(words.isEmpty() ? "" : " ").append(n);
        }
        return words.toString();
    }
}
