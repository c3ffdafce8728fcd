package dev.starling.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Softmax;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Row lengths with different distributions of threads, some too long for registers; compared with the reference. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class LongRowsTest {
    private static final Device GPU = AnyGpu.device();

    @ParameterizedTest
    @ValueSource(ints = {768, 1025, 2048, 9001, 16384, 20004, 20005})
    void agrees(int n) {
        agree(DType.F32, n, 1e-5);
    }

    @ParameterizedTest
    @ValueSource(ints = {1024, 50257})
    void agreesInSixteenBits(int n) {
        agree(DType.BF16, n, 1.0 / 128);
    }

    private static void agree(DType type, int n, double tolerance) {
        try (Scope scope = Scope.open()) {
            Tensor x = random(type, 1, 2, n);
            Tensor g = random(type, 2, 2, n);
            Tensor row = random(type, 3, n);
            Tensor target = Tensor.of(new long[] {n - 1, 3});
            same(tolerance, new Softmax.Exponentials(1), x);
            same(tolerance, new Softmax.Logarithms(1), x);
            same(tolerance, new Softmax.ExponentialsGradient(1), x, g);
            same(tolerance, new CrossEntropy.Loss(0.1, -1), x, target);
            same(tolerance, new CrossEntropy.Loss(0, -1), x, target);
            same(tolerance, new CrossEntropy.Gradient(0, -1), random(DType.F32, 6, 2), x, random(DType.F32, 7, 2, 2),
                    target);
            same(tolerance, new Normalization.LayerNorm(1e-5), x, row, row);
            same(tolerance, new Normalization.LayerNormGradient(), g, x, row, random(type, 4, 2), random(type, 5, 2));
            same(tolerance, new Reduction.Sum(new Axes(2), false), x);
            same(tolerance, new Reduction.ArgMax(new Axes(3), false), x);
        }
    }

    private static Tensor random(DType type, int seed, long... shape) {
        SplittableRandom random = new SplittableRandom(seed);
        int n = (int) Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        double[] elements = random.doubles(n, -2, 2).toArray();
        return Tensor.of(elements, shape).to(type);
    }

    private static void same(double tolerance, Op op, Tensor... inputs) {
        Tensor[] actual = Tensor.apply(op, on(GPU, inputs));
        Tensor[] expected = Tensor.apply(op, on(Device.reference(), inputs));
        for (int i = 0; i < expected.length; i++) {
            double[] e = expected[i].toDoubles();
            double scale = Arrays.stream(e).map(Math::abs).max().orElse(0);
            assertArrayEquals(e, actual[i].toDoubles(), tolerance * scale, op + " result " + i);
        }
    }

    private static Tensor[] on(Device device, Tensor... inputs) {
        return Arrays.stream(inputs).map(x -> x.to(device)).toArray(Tensor[]::new);
    }
}
