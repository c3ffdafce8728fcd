package dev.starling.cuda;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.function.Supplier;

/**
 * Times the kernels of a GPU and prints a line for each: microseconds, and gigabytes a second or the like where that
 * says more. Started by {@code gpu-check}.
 */
public final class GpuBenchmark {
    private static final int ROUNDS = 7;
    private static final long LARGE = 1L << 26;

    private GpuBenchmark() { }

    /** Runs all, on the first GPU or on the device of the type that is named. */
    public static void main(String[] arguments) {
        Device device = Device.of(arguments.length > 0 ? arguments[0] : "cuda", 0);
        Device.with(device, () -> {
            try (Scope scope = Scope.open()) {
                memoryBound(DType.F32);
                memoryBound(DType.BF16);
                overhead();
            }
            return null;
        });
    }

    /** What must run at the speed of a copy: bytes read once and written once. */
    private static void memoryBound(DType type) {
        Tensor a = Generator.seeded(7).uniform(new Spec(type, Shape.of(LARGE), Device.current()), -1, 1);
        Tensor b = Tensor.full(type, 0.25, LARGE);
        Tensor bias = Tensor.full(type, 0.125, 1024);
        Tensor matrix = a.reshape(LARGE / 1024, 1024);
        long bytes = LARGE * type.bytes();
        time("copy " + type, 2 * bytes, a::copy);
        time("add " + type, 3 * bytes, () -> a.add(b));
        time("gelu " + type, 2 * bytes, () -> a.gelu());
        time("add bias " + type, 2 * bytes, () -> matrix.add(bias));
        time("transpose " + type, 2 * bytes, () -> matrix.transpose(0, 1).contiguous());
        time("cast to f64 " + type, bytes + 8 * LARGE, () -> a.to(DType.F64));
    }

    /** What an operation costs the host, and one after the other on the device, when there is little to do. */
    private static void overhead() {
        Tensor a = Tensor.ones(1);
        Tensor b = Tensor.ones(1);
        time("add of one element", 0, () -> a.add(b));
    }

    private static void time(String name, long bytes, Supplier<Tensor> work) {
        int repeats = bytes == 0 ? 2000 : 20;
        double[] micros = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            synchronize();
            long start = System.nanoTime();
            for (int i = 0; i < repeats; i++) {
                try (Scope step = Scope.open()) {
                    work.get();
                }
            }
            synchronize();
            micros[round] = (System.nanoTime() - start) / 1e3 / repeats;
        }
        Arrays.sort(micros);
        double median = micros[ROUNDS / 2];
        String rate = bytes == 0 ? "" : String.format("%8.0f GB/s", bytes / median / 1e3);
        System.out.printf("%-24s %10.1f us %s%n", name, median, rate);
    }

    private static void synchronize() {
        Tensor.zeros(1).item();
    }
}
