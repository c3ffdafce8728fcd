package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.assertj.core.api.Assertions.withinPercentage;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Pooling;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Values at the ends of functions' domains, extreme statistics, large windows, and operands that begin at their last
 * element.
 */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class KernelCornersTest {
    private static final Device GPU = AnyGpu.device();
    private static final double INFINITY = Double.POSITIVE_INFINITY;

    private final Scope scope = Scope.open();

    @AfterEach
    void close() {
        scope.close();
    }

    /** The square of 1e30 is infinite in f32. */
    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16"})
    void theSlopeOfGeluIsOneAndZeroAtTheEnds(DType type) {
        Tensor x = Tensor.of(new double[] {INFINITY, -INFINITY, 1e30, -1e30}).to(type).to(GPU);
        Tensor slopes = Tensor.compute(Activation.GELU_TANH_GRADIENT, x, Tensor.full(type, 2, 4).to(GPU));
        assertThat(slopes.toDoubles()).containsExactly(2, 0, 2, 0);
    }

    @Test
    void siluOfNumbersFarBelowZeroIsNotZero() {
        double exact = -712 * Math.exp(-712 + 50) * Math.exp(-50);
        assertThat(Tensor.of(new double[] {-712}).to(GPU).silu().item() / exact).isCloseTo(1, within(1e-12));
    }

    @Test
    void clampedZerosKeepTheirSign() {
        Tensor x = Tensor.of(new float[] {-0f, -1, 0, 3, Float.NaN}).to(GPU);
        assertThat(x.clamp(0, 1).toDoubles()).containsExactly(-0d, 0, 0, 1, Double.NaN);
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F64", "F32", "BF16", "F16"})
    void extremesOfZerosDependOnTheirSigns(DType type) {
        Tensor a = Tensor.of(new double[] {0, -0d, 0, -0d, -1}).to(type).to(GPU);
        Tensor b = Tensor.of(new double[] {-0d, 0, 0, -0d, -1}).to(type).to(GPU);
        assertThat(a.maximum(b).toDoubles()).containsExactly(0, 0, 0, -0d, -1);
        assertThat(a.minimum(b).toDoubles()).containsExactly(-0d, -0d, 0, -0d, -1);
    }

    @Test
    void rowsWithoutElementsHaveTheMeanZero() {
        Tensor weight = Tensor.ones(0).to(GPU);
        Tensor[] y = Tensor.apply(new Normalization.LayerNorm(0.25), Tensor.ones(3, 0).to(GPU), weight, weight);
        assertThat(y[1].toDoubles()).containsExactly(0, 0, 0);
        assertThat(y[2].toDoubles()).containsExactly(2, 2, 2);
    }

    /** In f64 the numbers beside a middle between two bf16 numbers would first be rounded to that middle. */
    @Test
    void longsAreRoundedOnce() {
        long middle = (1L << 60) + (1L << 52);
        long next = (1L << 60) + (3L << 52);
        Tensor x = Tensor.of(new long[] {middle - 1, middle + 1, -middle - 1, next - 1, next + 1, Long.MIN_VALUE});
        assertThat(x.to(GPU).to(DType.BF16).toDoubles()).containsExactly(0x1p60, 0x1.02p60, -0x1.02p60, 0x1.02p60,
                0x1.04p60, -0x1p63);
    }

    /** As a single sum in f32, the mean of so many equal elements would be 0.06% too large. */
    @Test
    void averagesLargeWindowsPrecisely() {
        Tensor x = Tensor.full(DType.F32, 0.1, 1, 2, 256, 256).to(GPU);
        Tensor y = Tensor.compute(new Pooling.AvgPool(Pooling.Window.of(2, 256, 256, 0), true), x);
        assertThat(y.toDoubles()).containsExactly(new double[] {0.1, 0.1}, within(1e-5));
    }

    /** A pixel is in one window: a search through all positions of the kernel would take minutes. */
    @Test
    @Timeout(30)
    void gradientsOfLargeWindowsLookOnlyAtTheirWindow() {
        Pooling op = new Pooling.AvgPoolGradient(Pooling.Window.of(2, 256, 256, 0), true, Shape.of(1, 1, 256, 256));
        Tensor dx = Tensor.compute(op, Tensor.ones(1, 1, 1, 1).to(GPU));
        assertThat(dx.toDoubles()).containsOnly(1f / 65_536);
    }

    @Test
    void gradientsOfDilatedAndStridedWindowsAreThoseOfTheReference() {
        Pooling.Window window = new Pooling.Window(new int[] {2, 4}, new int[] {3, 2}, new int[] {1, 2},
                new int[] {2, 1}, true);
        Tensor x = Generator.seeded(1).normal(2, 3, 11, 9);
        Tensor[] y = Tensor.apply(new Pooling.MaxPool(window), x.to(Device.reference()));
        for (Pooling op : new Pooling[] {new Pooling.MaxPoolGradient(window, x.shape()),
            new Pooling.AvgPoolGradient(window, false, x.shape()),
            new Pooling.AvgPoolGradient(window, true, x.shape())}) {
            boolean places = op instanceof Pooling.MaxPoolGradient;
            Tensor expected = places ? Tensor.compute(op, y) : Tensor.compute(op, y[0]);
            Tensor actual = places ? Tensor.compute(op, y[0].to(GPU), y[1].to(GPU))
                    : Tensor.compute(op, y[0].to(GPU));
            assertThat(actual.toDoubles()).as(op.toString()).containsExactly(expected.toDoubles(), within(1e-5));
        }
    }

    /** All distances from the first pixel are large, and equal up to rounding. */
    @Test
    void batchNormKeepsItsPrecisionIfTheFirstPixelIsFarFromAllOthers() {
        float first = 100.3f;
        int n = 128 * 32 * 32;
        float[] elements = new float[2 * n];
        elements[0] = first;
        Tensor x = Tensor.of(elements, 128, 2, 32, 32).to(GPU);
        Tensor one = Tensor.ones(2).to(GPU);
        Tensor[] y = Tensor.apply(new Normalization.BatchNorm(1e-5, Epilogue.NONE), x, one, one);
        double mean = (double) first / n;
        double variance = (double) first * first / n - mean * mean;
        assertThat(y[1].toDoubles()[0]).isCloseTo(mean, withinPercentage(0.01));
        assertThat(y[2].toDoubles()[0]).isCloseTo(1 / Math.sqrt(variance + 1e-5), withinPercentage(0.01));
    }

    @Test
    void attentionTakesReversedGradients() {
        Generator random = Generator.seeded(1);
        Tensor[] in = {random.normal(2, 3, 4), random.normal(2, 5, 4), random.normal(2, 5, 4)};
        Tensor[] expected = attentionGradients(Device.reference(), in);
        Tensor[] actual = attentionGradients(GPU, in);
        for (int i = 0; i < expected.length; i++) {
            assertThat(actual[i].toDoubles()).containsExactly(expected[i].toDoubles(), within(1e-5));
        }
    }

    private static Tensor[] attentionGradients(Device device, Tensor[] in) {
        Tensor q = in[0].to(device);
        Tensor k = in[1].to(device);
        Tensor v = in[2].to(device);
        Tensor[] y = Tensor.apply(new Attention.ScaledDotProduct(0.5, false), q, k, v);
        return Tensor.apply(new Attention.ScaledDotProductGradient(0.5, false), q.flip(0, 1), q, k, v, y[0], y[1]);
    }
}
