package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Pooling;
import java.util.Arrays;
import java.util.List;
import java.util.function.DoublePredicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Neural operations against plain loops over their definitions, computed in Python in double precision. */
class FunctionsTest {
    private DType dtype;

    private void on(String device, DType type, Runnable body) {
        dtype = type;
        Device.with(Device.of(device, 0), () -> {
            try (Scope scope = Scope.open("test")) {
                body.run();
            }
            return null;
        });
    }

    /** Returns a tensor whose element {@code i} is {@code (k·i mod 11 - 5)/4}. */
    private Tensor p(int k, long... shape) {
        double[] elements = new double[(int) Shape.of(shape).count()];
        Arrays.setAll(elements, i -> (k * i % 11 - 5) / 4.0);
        return Tensor.of(elements, shape).to(dtype);
    }

    private void check(Tensor actual, String shape, double... elements) {
        assertThat(actual.shape()).hasToString(shape);
        assertThat(actual.dtype()).isEqualTo(dtype);
        assertThat(actual.toDoubles()).containsExactly(elements, within(dtype == DType.F64 ? 1e-8 : 2e-5));
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void denseLayersMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::dense);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void convolutionsMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::convolutions);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void poolsMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::pools);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void adaptivePoolsMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::adaptivePools);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void normsMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::norms);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void lossesMatchTheDefinition(String device, DType dtype) {
        on(device, dtype, this::losses);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void attentionMatchesTheDefinition(String device, DType dtype) {
        on(device, dtype, this::attention);
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void logSumExpMatchesTheDefinition(String device, DType dtype) {
        on(device, dtype, () -> {
            Tensor x = Tensor.of(new double[] {0, Math.log(2), Math.log(5), 1000, 1000, -1000}, 2, 3).to(dtype);
            check(x.logSumExp(false, 1).sub(Tensor.of(new double[] {0, 1000}, 2).to(dtype)), "[2]", Math.log(8),
                    dtype == DType.F64 ? Math.log(2) : (float) (1000 + Math.log(2)) - 1000);
            check(x.narrow(0, 0, 1).logSumExp(true, 0, 1), "[1, 1]", Math.log(8));
            double infinity = Double.POSITIVE_INFINITY;
            Tensor limits = Tensor.of(new double[] {-infinity, -infinity, infinity, 1, -infinity, 3}, 3, 2).to(dtype);
            assertThat(limits.logSumExp(false, 1).toDoubles()).containsExactly(-infinity, infinity, 3);
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void linspaceIncludesBothEnds(String device) {
        on(device, DType.F32, () -> {
            check(Tensor.linspace(-1, 2, 7), "[7]", -1, -0.5, 0, 0.5, 1, 1.5, 2);
            check(Tensor.linspace(2, -1, 4), "[4]", 2, 1, 0, -1);
            check(Tensor.linspace(3, 5, 1), "[1]", 3);
            check(Tensor.linspace(3, 5, 0), "[0]");
            for (int n = 2; n < 40; n++) {
                assertThat(Tensor.linspace(0.1, 0.7, n).toFloats()).startsWith(0.1F).endsWith(0.7F).hasSize(n);
            }
            assertThat(Tensor.linspace(-1e17, 1, 2).toFloats()).containsExactly(-1e17F, 1);
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void sumsOfNarrowTypesAreNotRoundedBeforeTheResult(String device) {
        on(device, DType.F16, () -> {
            check(Tensor.of(new double[] {300, 300, 300, 300}).to(dtype).norm(), "[]", 600);
            double[] elements = new double[16];
            elements[3] = 1000;
            check(Tensor.of(elements).to(dtype).variance(0, false), "[]", 58592);
        });
        on(device, DType.F32, () -> check(Tensor.of(new long[] {16}).to(DType.U8).norm(), "[]", 16));
        on(device, DType.F64, () -> check(Tensor.of(new int[] {50_000}).norm(), "[]", 50_000));
        on(device, DType.BF16, () -> {
            long[] target = new long[258];
            target[5] = -100;
            Tensor x = Tensor.of(new double[2 * 258], 258, 2).sub(3).to(dtype);
            check(Losses.nllLoss(x, Tensor.of(target), Losses.Reduce.MEAN, -100), "[]", 3);
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void aVarianceDoesNotDependOnTheRoundingOfTheMean(String device) {
        on(device, DType.F32, () -> {
            check(Tensor.full(DType.F32, 33_300_000, 1023).variance(1, false), "[]", 0);
            double[] elements = new double[4098];
            Arrays.setAll(elements, i -> 33_300_000 + 2 * (i % 2));
            check(Tensor.of(elements).to(DType.F32).variance(0, false), "[]", 1);
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void negativeClassesAreRefused(String device) {
        on(device, DType.F32, () -> {
            for (long ignored : new long[] {Losses.NONE_IGNORED, -100}) {
                Tensor target = Tensor.of(new long[] {0, -1});
                assertThatThrownBy(() -> Losses.nllLoss(p(3, 2, 3), target, Losses.Reduce.NONE, ignored).toDoubles())
                        .isInstanceOfSatisfying(TensorException.class, e ->
                        assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX));
            }
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void boundsWithAFractionMakeIntegersFloating(String device) {
        on(device, DType.F64, () -> {
            Tensor x = Tensor.of(new long[] {0, 1, 2});
            check(x.clamp(0.5, 1.5), "[3]", 0.5, 1, 1.5);
            check(x.clamp(0.5, Double.POSITIVE_INFINITY), "[3]", 0.5, 1, 2);
            check(x.maskedFill(x.eq(1), 0.5), "[3]", 0, 0.5, 2);
            assertThat(x.maskedFill(x.eq(1), 7).dtype()).isEqualTo(DType.I64);
            assertThat(x.clamp(1, Double.POSITIVE_INFINITY).dtype()).isEqualTo(DType.I64);
        });
        on(device, DType.F32, () -> {
            Tensor x = Tensor.of(new long[] {0, 3}).to(DType.U8);
            Tensor target = Tensor.of(new long[] {2, 2}).to(DType.U8);
            check(Losses.huberLoss(x, target, Losses.Reduce.NONE, 0.5), "[2]", 0.875, 0.375);
            check(Losses.smoothL1Loss(x, target, Losses.Reduce.NONE, 0.5), "[2]", 1.75, 0.75);
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void lossesAndExponentialsOfIntegersAreFloating(String device) {
        on(device, DType.F32, () -> {
            Tensor x = Tensor.of(new long[] {1, 200}).to(DType.U8);
            Tensor target = Tensor.of(new long[] {3, 100}).to(DType.U8);
            check(Losses.l1Loss(x, target, Losses.Reduce.NONE), "[2]", 2, 100);
            check(Losses.mseLoss(x, target, Losses.Reduce.NONE), "[2]", 4, 10_000);
            check(x.logSumExp(false), "[]", 200);
            check(Tensor.of(new boolean[] {true, false}).logSumExp(false), "[]", Math.log(1 + Math.E));
        });
        on(device, DType.F16, () -> check(Tensor.full(dtype, 0, 70_000).logSumExp(false), "[]", 11.15625));
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void theSmoothL1LossOfHalfFloatsNeitherOverflowsNorUnderflows(String device) {
        on(device, DType.F16, () -> {
            Tensor zero = Tensor.full(dtype, 0, 1);
            check(Losses.smoothL1Loss(Tensor.full(dtype, 1000, 1), zero, Losses.Reduce.NONE, 100), "[1]", 950);
            check(Losses.smoothL1Loss(Tensor.full(dtype, 0.5, 1), zero, Losses.Reduce.NONE, 1e-6), "[1]", 0.5);
        });
    }

    /** In bf16, x·scale and mean·scale are whole numbers here. */
    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void batchNormWithStatisticsOf16BitsIsComputedInF32(String device) {
        on(device, DType.BF16, () -> {
            Tensor x = Tensor.of(new double[] {100, 99}, 2, 1).to(dtype);
            Tensor y = Norms.batchNorm(x, Tensor.full(dtype, 99.5, 1), Tensor.full(dtype, 0.22265625, 1), null, null,
                    0);
            double expected = 0.5 / Math.sqrt(0.22265625);
            assertThat(y.dtype()).isEqualTo(dtype);
            assertThat(y.toDoubles()).containsExactly(new double[] {expected, -expected}, within(0.004));
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void normsBesideNarrowerWeightsKeepThePrecisionOfX(String device) {
        on(device, DType.F64, () -> {
            Tensor x = Tensor.of(new double[] {10.1, 10.7, -10.3, 10.2, 0.3, -5.9, 7.7, 1.1}, 2, 4);
            Tensor ones = Tensor.ones(4);
            Tensor wide = ones.to(dtype);
            check(Norms.batchNorm(x, ones.mul(0.5), ones.mul(0.75), ones, null, 0.25), "[2, 4]",
                    x.sub(0.5).toDoubles());
            check(Norms.groupNorm(x, 1, ones, null, 1e-5), "[2, 4]",
                    Norms.groupNorm(x, 1, wide, null, 1e-5).toDoubles());
            check(Norms.rmsNorm(x, ones, 1e-5), "[2, 4]", Norms.rmsNorm(x, wide, 1e-5).toDoubles());
        });
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void extremeIntegersAreExact(String device) {
        on(device, DType.I64, () -> {
            assertThat(Tensor.of(new long[] {-1}).sub(-0x1p63).toLongs()).containsExactly(Long.MAX_VALUE);
            long between = (1L << 60) + (1L << 36) + 1;
            assertThat(Tensor.of(new long[] {between}).toFloats()).containsExactly((float) between);
        });
    }

    @Test
    void instancesAreNormalisedWithAnyNumberOfChannels() {
        on("reference", DType.F32, () -> check(Norms.instanceNorm(Tensor.zeros(0, 1L << 31), null, null, 1e-5),
                "[0, 2147483648]"));
    }

    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void wholePowersOfIntegersAreExactAndWrap(String device) {
        on(device, DType.F64, () -> {
            Tensor x = Tensor.of(new long[] {3, -3, 0});
            assertThat(x.pow(39).toLongs()).containsExactly(4052555153018976267L, -4052555153018976267L, 0);
            assertThat(x.pow(0).toLongs()).containsExactly(1, 1, 1);
            assertThat(x.pow(1).toLongs()).containsExactly(3, -3, 0);
            Tensor two = Tensor.of(new int[] {2});
            assertThat(two.pow(31).dtype()).isEqualTo(DType.I32);
            assertThat(two.pow(31).toLongs()).containsExactly(Integer.MIN_VALUE);
            assertThat(two.pow(1e300).toLongs()).containsExactly(0);
            assertThat(Tensor.of(new long[] {17}).to(DType.U8).pow(3).toLongs()).containsExactly(4913 % 256);
            check(two.pow(-1), "[1]", 0.5);
            check(Tensor.of(new int[] {4}).pow(1.5), "[1]", 8);
        });
    }

    private static void assertMarks(Tensor found, Tensor x, DoublePredicate expected, double number) {
        long[] marks = Arrays.stream(x.toDoubles()).mapToLong(v -> expected.test(v) ? 1 : 0).toArray();
        assertThat(found.dtype()).isEqualTo(DType.BOOL);
        assertThat(found.to(DType.I64).toLongs()).as(x.dtype() + " and " + number).isEqualTo(marks);
    }

    /** Also numbers that the type does not have, and some that a narrower type would round or wrap to an element. */
    @ParameterizedTest
    @CsvSource({"reference", "cpu"})
    void comparesIntegersWithAnyNumber(String device) {
        double[] numbers = {0, -0.0, 1, 44, 100, 128, -1, -156, 300, 0x1p31, 0x1p32, 0x1p32 + 1, -0x1p63, 0x1p63,
            -0x1p64, 1e300, 0.5, 1.00000001, Double.MIN_VALUE, Double.NaN, Double.POSITIVE_INFINITY,
            Double.NEGATIVE_INFINITY};
        on(device, DType.F32, () -> {
            for (DType type : List.of(DType.I64, DType.I32, DType.I8, DType.U8, DType.BOOL)) {
                Tensor x = Tensor.of(new long[] {0, 1, 44, 100}).to(type);
                for (double b : numbers) {
                    assertMarks(x.eq(b), x, v -> v == b, b);
                    assertMarks(x.ne(b), x, v -> v != b, b);
                    assertMarks(x.lt(b), x, v -> v < b, b);
                    assertMarks(x.le(b), x, v -> v <= b, b);
                    assertMarks(x.gt(b), x, v -> v > b, b);
                    assertMarks(x.ge(b), x, v -> v >= b, b);
                }
            }
            Tensor ends = Tensor.of(new long[] {Long.MIN_VALUE, Long.MAX_VALUE});
            assertThat(ends.eq(0x1p63).to(DType.I64).toLongs()).containsExactly(0, 0);
            assertThat(ends.lt(0x1p63).to(DType.I64).toLongs()).containsExactly(1, 1);
            assertThat(ends.le(-0x1p63).to(DType.I64).toLongs()).containsExactly(1, 0);
        });
    }

    @Test
    void faultsAreTyped() {
        on("reference", DType.F32, () -> {
            assertFault(() -> Convolutions.convTranspose1d(p(3, 1, 2, 3), p(5, 2, 1, 2), null, 2, 0, 2, 1, 1));
            assertFault(() -> Convolutions.convTranspose1d(p(3, 1, 2), p(5, 2, 1, 2), null, 2, 0, 0, 1, 1));
            assertFault(() -> Convolutions.conv2d(p(3, 1, 2, 3, 3), p(5, 2, 2, 1, 1), null, new int[] {1},
                    new int[2], new int[] {1, 1}, 1));
            assertFault(() -> Pools.adaptiveAvgPool(p(3, 1, 2, 3), 2, 2));
            assertFault(() -> Pools.adaptiveMaxPool(p(3, 1, 2, 3), 0));
            assertFault(() -> Norms.groupNorm(p(3, 1, 3, 3), 2, null, null, 1e-5));
            assertFault(() -> Norms.batchNorm(p(3, 4), null, null, 1e-5));
            assertFault(() -> Norms.rmsNorm(p(3, 4, 3), p(3, 4), 1e-5));
            assertFault(() -> Losses.mseLoss(p(3, 4, 1), p(3, 4), Losses.Reduce.MEAN));
            assertFault(() -> Losses.crossEntropy(p(3, 4, 3), Tensor.of(new long[] {1, 2})));
            assertFault(() -> Losses.huberLoss(p(3, 4), p(3, 4), Losses.Reduce.MEAN, 0));
            assertFault(() -> Functions.dropout(p(3, 4), 1, Generator.seeded(1)));
            assertFault(() -> Functions.scaledDotProductAttention(p(3, 4), p(3, 4), p(3, 4), false));
            assertFault(() -> Functions.scaledDotProductAttention(p(3, 4, 4), p(3, 4, 4), p(3, 4, 4), null, false, 0.5,
                    1, null));
        });
    }

    private static void assertFault(Runnable body) {
        assertThatThrownBy(body::run).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isIn(TensorException.Problem.SHAPE, TensorException.Problem.ARGUMENT);
            assertThat(e.remedy()).isNotBlank();
        });
    }

    @ParameterizedTest
    @CsvSource({"reference,F64", "cpu,F64", "cpu,F32"})
    void dropoutZeroesOrScalesAndIsAFunctionOfTheState(String device, DType type) {
        on(device, type, () -> {
            Generator generator = Generator.seeded(7);
            Tensor x = p(3, 40, 50).add(10);
            assertThat(Functions.dropout(x, 0, generator)).isSameAs(x);
            assertThat(generator.state()).isEqualTo(new Generator.State(7, 0));
            double[] dropped = Functions.dropout(x, 0.3, generator).toDoubles();
            assertThat(generator.state()).isEqualTo(new Generator.State(7, 500));
            double[] all = x.toDoubles();
            int zeros = 0;
            for (int i = 0; i < all.length; i++) {
                zeros += dropped[i] == 0 ? 1 : 0;
                assertThat(dropped[i] == 0 ? all[i] : dropped[i] * 0.7).isCloseTo(all[i], within(1e-4));
            }
            assertThat(zeros).isBetween(500, 700);
        });
    }

    @Test
    void attentionDropsWeights() {
        on("reference", DType.F64, () -> {
            Tensor q = p(3, 6, 4);
            Tensor weights = Functions.scaledDotProductAttention(q, q, Tensor.eye(6).to(dtype), false);
            Tensor dropped = Functions.scaledDotProductAttention(q, q, Tensor.eye(6).to(dtype), null, false, 0.5,
                    0.5, Generator.seeded(3));
            Tensor kept = dropped.ne(0);
            assertThat(kept.sum().itemLong()).isBetween(8L, 28L);
            assertThat(dropped.toDoubles()).containsExactly(weights.mul(2).mul(kept.to(dtype)).toDoubles(),
                    within(1e-12));
        });
    }

    private void dense() {
        check(Functions.linear(p(3, 2, 3), p(5, 2, 3), p(7, 2)), "[2, 2]", 0.625, 0.1875, -2.8125, -0.625);
        check(Functions.linear(p(3, 2, 2, 3), p(5, 2, 3), null), "[2, 2, 2]", 1.875, -0.3125, -1.5625, -1.125,
                -1.5625, 1.5, -1.5625, 1.375);
        check(Functions.linearRelu(p(3, 2, 3), p(5, 2, 3), p(7, 2)), "[2, 2]", 0.625, 0.1875, 0.0, 0.0);
        check(Functions.embedding(p(3, 3, 2), Tensor.of(new long[] {2, 0, 2, 1}, 2, 2)), "[2, 2, 2]", -1.0, -0.25,
                -1.25, -0.5, -1.0, -0.25, 0.25, 1.0);
    }

    private void convolutions() {
        check(Convolutions.conv1d(p(3, 1, 2, 6), p(5, 2, 2, 3), p(7, 2), 2, 1, 1, 1), "[1, 2, 3]", -2.0, -0.4375,
                -1.4375, -0.25, -1.0, 3.625);
        check(Convolutions.conv2d(p(3, 1, 2, 4, 4), p(5, 2, 1, 2, 2), null, 1, 1, 2, 2), "[1, 2, 4, 4]", 0.0625,
                -1.375, -0.625, 0.625, 0.0, 0.4375, 0.9375, 0.625, -0.0625, 0.375, 0.875, 0.625, 0.0, 0.9375, 0.0,
                -0.9375, -0.5625, 0.9375, 0.9375, -0.9375, -1.0, 0.0625, 1.8125, 0.5, -1.3125, 1.5625, 1.9375,
                -1.8125, -0.5, 0.75, 1.125, -1.0);
        check(Convolutions.conv2d(p(3, 1, 1, 5, 4), p(5, 1, 1, 2, 3), p(7, 1), new int[] {2, 1}, new int[] {0, 1},
                new int[] {1, 2}, 1), "[1, 1, 2, 2]", -0.875, 1.0625, -2.0625, 0.8125);
        check(Convolutions.conv3d(p(3, 1, 1, 3, 3, 2), p(5, 1, 1, 2, 2, 2), p(7, 1), 1, 0, 1, 1), "[1, 1, 2, 2, 1]",
                -0.3125, -2.0, -1.9375, 1.875);
        check(Convolutions.conv3d(p(3, 1, 1, 3, 3, 2), p(5, 1, 1, 2, 2, 2), null, new int[] {2, 1, 1}, new int[] {1,
                0, 0}, new int[] {1, 1, 1}, 1), "[1, 1, 2, 2, 1]", -1.5625, -0.8125, -0.6875, 3.125);
        check(Convolutions.convTranspose1d(p(3, 1, 2, 3), p(5, 2, 1, 2), p(7, 1), 3, 1, 2, 1, 1), "[1, 1, 8]", -1.5,
                -1.25, -1.875, -1.0, -1.25, -1.875, -1.1875, -1.25);
        check(Convolutions.convTranspose2d(p(3, 1, 2, 2, 2), p(5, 2, 2, 2, 2), p(7, 4), 2, 1, 1, 2, 2),
                "[1, 4, 4, 4]", -1.25, -1.25, -1.25, -1.25, -1.25, -2.8125, -1.25, -1.125, -1.25, -1.25, -1.25,
                -1.25, -1.25, -0.0625, -1.25, -1.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.9375, 0.5, 0.375, 0.5, 0.5, 0.5, 0.5,
                0.5, 1.0625, 0.5, -0.25, -0.5, -0.5, -0.5, -0.5, -0.5, 0.8125, -0.5, -1.4375, -0.5, -0.5, -0.5, -0.5,
                -0.5, -0.8125, -0.5, -2.0625, 1.25, 1.25, 1.25, 1.25, 1.25, 0.9375, 1.25, 2.5625, 1.25, 1.25, 1.25,
                1.25, 1.25, 1.4375, 1.25, 2.5);
        check(Convolutions.convTranspose3d(p(3, 1, 1, 2, 2, 3), p(5, 1, 1, 2, 2, 2), null, 1, 1, 0, 1, 1),
                "[1, 1, 1, 1, 2]", -0.4375, 1.125);
    }

    private void pools() {
        check(Pools.maxPool1d(p(3, 1, 2, 4), 2, 1, 1), "[1, 2, 5]", -1.25, -0.5, 0.25, 1.0, 1.0, -1.0, -0.25, 0.5,
                1.25, 1.25);
        check(Pools.maxPool2d(p(3, 1, 2, 4, 5), 3, 2, 1), "[1, 2, 2, 3]", 0.5, 1.25, 1.0, 0.75, 1.25, 1.25, 1.0,
                0.75, 1.25, 1.0, 1.0, 1.25);
        check(Pools.maxPool3d(p(3, 1, 1, 2, 3, 3), 2, 1, 0), "[1, 1, 1, 2, 2]", 1.0, 1.0, 1.25, 1.25);
        check(Pools.avgPool1d(p(3, 1, 2, 4), 2, 2, 1), "[1, 2, 3]", -0.625, -0.125, 0.5, -0.5, 0.125, 0.625);
        check(Pools.avgPool2d(p(3, 1, 2, 4, 5), 3, 2, 1), "[1, 2, 2, 3]", -0.166666667, 0.194444444, -0.083333333,
                -0.166666667, 0.111111111, 0.111111111, 0.083333333, -0.194444444, 0.166666667, 0.055555556,
                -0.166666667, 0.027777778);
        check(Pools.avgPool2d(p(3, 1, 1, 3, 3), 2, 1, 0), "[1, 1, 2, 2]", -0.4375, -0.375, 0.4375, -0.1875);
        check(Pools.avgPool3d(p(3, 1, 1, 2, 3, 3), 2, 1, 0), "[1, 1, 1, 2, 2]", -0.15625, -0.09375, 0.03125, 0.09375);
        check(Pools.avgPool(p(3, 1, 2, 4), Pooling.Window.of(1, 2, 2, 1), false), "[1, 2, 3]", -1.25, -0.125, 1.0,
                -1.0, 0.125, 1.25);
    }

    private void adaptivePools() {
        check(Pools.adaptiveAvgPool(p(3, 1, 2, 5), 3), "[1, 2, 3]", -0.875, 0.25, 0.0, 0.125, 0.333333333, -0.375);
        check(Pools.adaptiveAvgPool(p(3, 1, 2, 5, 7), 2, 3), "[1, 2, 2, 3]", -0.138888889, 0.138888889, -0.194444444,
                -0.027777778, 0.25, -0.083333333, 0.138888889, -0.194444444, 0.083333333, 0.25, -0.083333333,
                0.194444444);
        check(Pools.adaptiveAvgPool(p(3, 1, 1, 4, 6), 2, 3), "[1, 1, 2, 3]", 0.0, 0.125, -0.4375, 0.0625, 0.1875,
                -0.375);
        check(Pools.adaptiveAvgPool(p(3, 2, 2, 3, 3), 1, 1), "[2, 2, 1, 1]", -0.083333333, -0.055555556,
                -0.027777778, 0.0);
        check(Pools.adaptiveAvgPool(p(3, 1, 1, 2, 5, 3), 1, 3, 2), "[1, 1, 1, 3, 2]", -0.3125, -0.25, 0.3125,
                -0.3125, 0.25, 0.3125);
        check(Pools.adaptiveAvgPool(p(3, 1, 1, 2, 4), 3, 2), "[1, 1, 3, 2]", -0.875, 0.625, -0.75, 0.75, -0.625,
                0.875);
        check(Pools.adaptiveMaxPool(p(3, 1, 2, 5), 3), "[1, 2, 3]", -0.5, 1.0, 1.0, 0.5, 1.25, 0.0);
        check(Pools.adaptiveMaxPool(p(3, 1, 2, 5, 7), 2, 3), "[1, 2, 2, 3]", 1.25, 1.25, 1.25, 1.25, 1.25, 1.25,
                1.25, 1.25, 1.25, 1.25, 1.25, 1.25);
        check(Pools.adaptiveMaxPool(p(3, 1, 1, 4, 6), 2, 3), "[1, 1, 2, 3]", 1.25, 1.0, 0.75, 1.25, 1.0, 0.5);
        check(Pools.adaptiveMaxPool(p(3, 2, 2, 3, 3), 1, 1), "[2, 2, 1, 1]", 1.25, 1.0, 1.25, 1.25);
        check(Pools.adaptiveMaxPool(p(3, 1, 1, 2, 5, 3), 1, 3, 2), "[1, 1, 1, 3, 2]", 1.25, 0.5, 1.25, 1.25, 1.0,
                1.25);
        check(Pools.adaptiveMaxPool(p(3, 1, 1, 2, 4), 3, 2), "[1, 1, 3, 2]", -0.5, 1.0, -0.25, 1.25, -0.25, 1.25);
    }

    private void norms() {
        check(Norms.batchNorm(p(3, 3, 2, 4), p(5, 2), p(7, 2), 1e-3).y(), "[3, 2, 4]", 0.54410289, -0.609248968,
                -1.762600826, -2.915952683, 0.5, 0.5, 0.5, 0.5, -0.224798349, -1.378150206, -2.531502064, 0.54410289,
                0.5, 0.5, 0.5, 0.5, -0.993699587, -2.147051445, -3.300403303, -0.224798349, 0.5, 0.5, 0.5, 0.5);
        check(Norms.batchNorm(p(3, 3, 2, 4), null, null, 1e-3, Epilogue.RELU).y(), "[3, 2, 4]", 0.0, 0.0,
                0.410080661, 1.332762147, 0.0, 0.0, 0.710205714, 1.657146665, 0.0, 0.102520165, 1.025201651, 0.0,
                0.0, 0.39455873, 1.341499681, 0.0, 0.0, 0.717641156, 1.640322642, 0.0, 0.078911746, 1.025852697, 0.0,
                0.0);
        check(Norms.batchNorm(p(3, 3, 2, 4), null, null, 1e-3).mean(), "[2]", -0.083333333, -0.0625);
        check(Norms.batchNorm(p(3, 3, 2, 4), null, null, 1e-3).variance(1e-3), "[2]", 0.659722222, 0.626302083);
        check(Norms.batchNorm(p(3, 2, 2, 2), p(2, 2), p(4, 2).square(), p(5, 2), p(7, 2), 1e-3), "[2, 2, 2]", -1.25,
                -1.999760115, 0.5, 0.5, -1.499920038, -2.249680154, 0.5, 0.5);
        check(Norms.batchNorm(p(3, 2, 2, 2), p(2, 2), p(4, 2).square(), null, null, 1e-3), "[2, 2, 2]", 0.0,
                0.599808092, 3.968378951, 6.944663164, 0.199936031, 0.799744123, 4.960473688, 7.936757901);
        check(Norms.layerNorm(p(3, 2, 2, 3), p(5, 3), p(7, 3), 1e-3), "[2, 2, 3]", 0.278893921, 0.5, 1.028893921,
                -2.890293214, 0.5, -0.752352802, -1.502352802, 0.5, -2.140293214, -1.502352802, 0.5, -2.140293214);
        check(Norms.layerNorm(p(3, 2, 2, 3), p(5, 2, 3), null, 1e-3), "[2, 2, 3]", 1.583653117, 0.0, 0.895108283,
                -0.426897797, -0.936420973, -0.027541793, -0.603804144, 0.0, -1.207608288, 0.024152166, 0.772869305,
                0.772869305);
        check(Norms.groupNorm(p(3, 2, 4, 2), 2, p(5, 4), p(7, 4), 1e-3), "[2, 4, 2]", 0.425859684, -0.691380105, 0.5,
                0.5, -2.175859684, -1.058619895, 1.138276021, 0.914828063, -0.528939752, -1.765043034, 0.5, 0.5,
                -1.221060248, 0.015043034, 0.899770737, 1.55902582);
        check(Norms.instanceNorm(p(3, 2, 2, 3), null, null, 1e-3), "[2, 2, 3]", -1.223115137, 0.0, 1.223115137,
                1.312234571, -1.110352329, -0.201882242, 0.201882242, 1.110352329, -1.312234571, 0.201882242,
                1.110352329, -1.312234571);
        check(Norms.rmsNorm(p(3, 2, 2, 3), p(5, 3), 1e-3), "[2, 2, 3]", 1.974844294, 0.0, 0.394968859, -1.506461513,
                0.0, -0.376615378, -0.701996133, 0.0, -1.052994199, 0.0, 0.0, -1.85521754);
    }

    private void losses() {
        check(Losses.crossEntropy(p(3, 4, 3), Tensor.of(new long[] {2, 0, 1, 2})), "[]", 0.957384766);
        check(Losses.crossEntropy(p(3, 4, 3), Tensor.of(new long[] {2, 0, 1, 2}).to(DType.I32), Losses.Reduce.NONE,
                0.1, -100), "[4]", 0.602975744, 0.460285197, 0.566472395, 2.366472395);
        check(Losses.crossEntropy(p(3, 4, 3), Tensor.of(new long[] {2, -100, 1, 2}), Losses.Reduce.MEAN, 0.1, -100),
                "[]", 1.178640178);
        check(Losses.crossEntropy(p(3, 4, 3), Tensor.of(new long[] {2, -100, 1, 2}), Losses.Reduce.SUM, 0, -100),
                "[]", 3.4775872);
        check(Losses.crossEntropy(p(3, 2, 3, 2), Tensor.of(new long[] {0, 2, 1, 1}, 2, 2), Losses.Reduce.NONE, 0,
                Losses.NONE_IGNORED), "[2, 2]", 1.911867871, 1.661867871, 2.194112186, 1.563780863);
        check(Losses.nllLoss(p(3, 2, 3, 2).logSoftmax(1), Tensor.of(new long[] {0, 2, 1, 1}, 2, 2),
                Losses.Reduce.MEAN, Losses.NONE_IGNORED), "[]", 1.832907198);
        check(Losses.nllLoss(p(3, 4, 3), Tensor.of(new long[] {2, -100, 1, 2}), Losses.Reduce.NONE, -100), "[4]",
                -0.25, 0.0, -1.25, 1.25);
        check(Losses.nllLoss(p(3, 4, 3), Tensor.of(new long[] {2, -100, 1, 2}), Losses.Reduce.MEAN, -100), "[]",
                -0.083333333);
        check(Losses.crossEntropy(p(3, 4, 3), p(5, 4, 3).softmax(1), Losses.Reduce.MEAN, 0.2, Losses.NONE_IGNORED),
                "[]", 1.310155452);
        check(Losses.binaryCrossEntropyWithLogits(p(3, 2, 4).mul(10), p(5, 2, 4).add(1.25).mul(0.4),
                Losses.Reduce.NONE), "[2, 4]", 3.727e-06, 2.506715348, 0.078889734, 6.000045399, 9.000045399,
                0.828889734, 1.006715348, 10.000003727);
        check(Losses.mseLoss(p(3, 2, 4), p(5, 2, 4), Losses.Reduce.MEAN), "[]", 1.3671875);
        check(Losses.l1Loss(p(3, 2, 4), p(5, 2, 4), Losses.Reduce.SUM), "[]", 7.25);
        check(Losses.huberLoss(p(3, 2, 4), p(5, 2, 4), Losses.Reduce.NONE, 0.8), "[2, 4]", 0.0, 0.125, 0.48, 0.68,
                1.28, 0.03125, 0.03125, 1.28);
        check(Losses.smoothL1Loss(p(3, 2, 4), p(5, 2, 4), Losses.Reduce.MEAN, 0.8), "[]", 0.610546875);
        check(Losses.klDiv(p(3, 2, 4), p(5, 2, 4).relu(), Losses.Reduce.NONE), "[2, 4]", 0.0, 0.0, -0.033570561, 0.0,
                1.0, 0.0, -0.590761554, 0.0);
        check(Losses.klDiv(Tensor.of(new double[] {Double.NEGATIVE_INFINITY, 0}).to(dtype),
                Tensor.of(new double[] {0, 1}).to(dtype), Losses.Reduce.SUM), "[]", 0.0);
    }

    private void attention() {
        Tensor chosen = Tensor.of(new boolean[] {true, false, true, true, false, false, false, false}, 2, 4);
        check(Functions.scaledDotProductAttention(p(3, 2, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), false), "[2, 2, 2]",
                -0.375648012, 0.314346804, 0.09852391, -0.21580338, -0.262393033, 0.077680037, -0.029994046,
                -0.03083299);
        check(Functions.scaledDotProductAttention(p(3, 2, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), true), "[2, 2, 2]",
                -1.25, 0.5, -0.827889449, 0.922110551, -1.0, 0.75, -0.86086826, 0.378982026);
        check(Functions.scaledDotProductAttention(p(3, 2, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), chosen, false, 0, 0.5,
                null), "[2, 2, 2]", -0.306677541, 0.138763397, 0.0, 0.0, -0.212860492, 0.241818379, 0.0, 0.0);
        check(Functions.scaledDotProductAttention(p(3, 2, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), chosen, true, 0, 0.5,
                null), "[2, 2, 2]", -1.25, 0.5, 0.0, 0.0, -1.0, 0.75, 0.0, 0.0);
        check(Functions.scaledDotProductAttention(p(3, 2, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), p(4, 2, 1, 4), false,
                0, 0.5, null), "[2, 2, 2]", -0.073971367, -0.021173429, 0.178836034, -0.505922596, -0.298225329,
                -0.147135654, -0.13293568, -0.13464804);
        check(Functions.scaledDotProductAttention(p(3, 2, 1, 2, 3), p(5, 2, 4, 3), p(7, 2, 4, 2), null, false, 0,
                0.5, null), "[2, 2, 2, 2]", -0.335618392, 0.305118267, 0.072975073, -0.151122209, 0.318831255,
                -0.166494829, 0.368105419, -0.340025106, -0.004157199, 0.516759203, 0.179757716, 0.426227798,
                -0.217882523, 0.040093596, -0.016889631, -0.041324267);
    }
}
