package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Contractions and convolutions of the CPU backend against the reference backend, on operands with odd strides. */
class ContractionKernelsTest {
    private static final Random RANDOM = new Random(11);

    static Stream<Arguments> products() {
        long[][][] pairs = {
            {{1, 1}, {1, 1}}, {{3, 5}, {5, 2}}, {{17, 33}, {33, 65}},
            {{2, 3, 4}, {4, 5}}, {{3, 4}, {2, 4, 5}}, {{2, 1, 3, 4}, {5, 4, 6}},
            {{2, 2, 1, 1}, {2, 2, 1, 1}}, {{4, 1, 3}, {4, 3, 1}},
            {{3, 2, 4, 1}, {1, 2, 1, 4}}, {{2, 3, 16, 16}, {2, 1, 16, 16}},
            {{0, 3}, {3, 2}}, {{2, 0}, {0, 3}}};
        return Stream.of(pairs).map(pair -> Arguments.of(pair[0], pair[1]));
    }

    @ParameterizedTest
    @MethodSource("products")
    void multipliesViewsOfAnyStrides(long[] a, long[] b) {
        Assumptions.assumeTrue(OneDnn.available(), OneDnn::description);
        for (int layout = 0; layout < 25; layout++) {
            try (Scope scope = Scope.open("test")) {
                Tensor left = view(a, layout % 5);
                Tensor right = view(b, layout / 5);
                check(new Contraction.MatMul(), 2e-5, left, right);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"0,false", "1,false", "2,true", "3,true", "4,false"})
    void computesDenseLayers(int layout, boolean relu) {
        for (long[] x : new long[][] {{7}, {1, 7}, {5, 7}, {2, 3, 7}, {2, 3, 2, 7}}) {
            try (Scope scope = Scope.open("test")) {
                Contraction.Linear op = new Contraction.Linear(relu ? Epilogue.RELU : Epilogue.NONE);
                Tensor weight = view(new long[] {33, 7}, layout);
                check(op, 1e-5, view(x, layout), weight);
                check(op, 1e-5, view(x, layout), weight, view(new long[] {33}, layout));
            }
        }
    }

    /** oneDNN accepts neither interleaved strides nor strides of 0 or less: such operands are copied. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void multipliesWithAnyStrides(long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < 250; i++) {
            try (Scope scope = Scope.open("test")) {
                long[] sizes = random.longs(7, 1, 5).toArray();
                int lead = random.nextInt(5);
                long[] batch = Arrays.copyOfRange(sizes, 3, 3 + Math.min(lead, 4));
                check(new Contraction.MatMul(), 1e-5, tangled(random, with(batch, sizes[0], sizes[1])),
                        tangled(random, with(random.nextBoolean() ? batch : new long[0], sizes[1], sizes[2])));
                Tensor x = tangled(random, lead == 0 ? new long[] {sizes[1]} : with(batch, sizes[1]));
                check(new Contraction.Linear(Epilogue.NONE), 1e-5, x, tangled(random, sizes[2], sizes[1]),
                        tangled(random, sizes[2]));
                Tensor g = tangled(random, with(batch, sizes[0], sizes[2]));
                Tensor rows = tangled(random, with(batch, sizes[0], sizes[1]));
                check(new Contraction.LinearWeightGradient(), 1e-3, g, rows);
                check(new Contraction.LinearInputGradient(Epilogue.RELU), 1e-5, g, tangled(random, sizes[2], sizes[1]),
                        rows);
            }
        }
    }

    @Test
    void multipliesTensorsOfTheMaximumRank() {
        long[] dims = new long[Shape.MAX_RANK];
        Arrays.fill(dims, 2);
        try (Scope scope = Scope.open("test")) {
            Tensor x = view(dims, 0).flip(0, 2, 4, 6, 8, 10, 12);
            check(new Contraction.MatMul(), 1e-5, x, x.permute(13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14));
        }
    }

    private static long[] with(long[] lead, long... last) {
        long[] dims = Arrays.copyOf(lead, lead.length + last.length);
        System.arraycopy(last, 0, dims, lead.length, last.length);
        return dims;
    }

    /** A view with strides of -6 to 12. */
    private static Tensor tangled(Random random, long... dims) {
        long[] strides = random.longs(dims.length, -6, 13).toArray();
        long first = 0;
        long last = 0;
        for (int i = 0; i < dims.length; i++) {
            first += Math.min(0, (dims[i] - 1) * strides[i]);
            last += Math.max(0, (dims[i] - 1) * strides[i]);
        }
        float[] values = new float[(int) (last - first + 1)];
        for (int i = 0; i < values.length; i++) {
            values[i] = random.nextFloat() * 2 - 1;
        }
        Tensor line = Tensor.of(values, values.length);
        return line.storage().view(line.spec().with(Shape.of(dims)), strides, -first);
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16", "F16"})
    void rectifyingDoesNotHideNan(DType type) {
        try (Scope scope = Scope.open("test")) {
            Tensor one = Tensor.ones(1, 1, 1, 1).to(type);
            Tensor x = Tensor.of(new float[] {Float.NaN, -2, 3}, 1, 1, 3, 1).to(type);
            Convolution.Geometry plain = Convolution.Geometry.of(2, 1, 0, 1, 1);
            assertThat(Tensor.compute(new Convolution.Conv(plain, Epilogue.RELU), x, one).to(DType.F32).toFloats())
                    .containsExactly(Float.NaN, 0, 3);
            assertThat(Functions.linearRelu(x.reshape(3, 1), one.reshape(1, 1), Tensor.zeros(1).to(type))
                    .to(DType.F32).toFloats()).containsExactly(Float.NaN, 0, 3);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16", "F64"})
    void supportsOtherTypes(DType type) {
        try (Scope scope = Scope.open("test")) {
            double tolerance = type == DType.F64 ? 1e-12 : 0.05;
            check(new Contraction.MatMul(), tolerance, view(new long[] {2, 5, 9}, 0).to(type),
                view(new long[] {9, 4}, 0).to(type));
            Convolution.Conv conv = new Convolution.Conv(Convolution.Geometry.of(2, 1, 1, 1, 1), Epilogue.NONE);
            check(conv, tolerance, view(new long[] {2, 3, 5, 5}, 0).to(type),
                view(new long[] {4, 3, 3, 3}, 0).to(type), view(new long[] {4}, 0).to(type));
        }
    }

    @ParameterizedTest
    @CsvSource({"1,1,1,1", "2,2,1,1", "2,1,2,2", "1,3,0,1", "3,1,1,1"})
    void convolvesViewsOfAnyStrides(int spatial, int stride, int padding, int groups) {
        for (int layout = 0; layout < 5; layout++) {
            try (Scope scope = Scope.open("test")) {
                Convolution.Geometry geometry = Convolution.Geometry.of(spatial, stride, padding, 1, groups);
                Tensor x = view(dims(spatial, 3, 4, 7), layout);
                Tensor weight = view(dims(spatial, 6, 4 / groups, 3), layout);
                Tensor bias = view(new long[] {6}, layout);
                Tensor y = check(new Convolution.Conv(geometry, Epilogue.NONE), 2e-5, x, weight, bias);
                assertThat(ChannelsLast.holds(y)).isTrue();
                check(new Convolution.Conv(geometry, Epilogue.RELU), 2e-5, x, weight);
                Tensor gradient = view(y.shape().dims(), layout);
                check(new Convolution.ConvInputGradient(geometry, x.shape()), 2e-5, gradient, weight);
                check(new Convolution.ConvWeightGradient(geometry, weight.shape(), true), 5e-5, x, gradient);
                check(new Convolution.ConvWeightGradient(geometry, weight.shape(), false), 5e-5, x, gradient);
            }
        }
    }

    @Test
    void reportsWhichTypesRunOnOneDnn() {
        Assumptions.assumeTrue(OneDnn.available(), OneDnn::description);
        assertThat(OneDnn.supports(ElementType.F32)).isTrue();
        assertThat(OneDnn.supports(ElementType.S32)).isFalse();
        assertThat(OneDnn.description()).contains("oneDNN 3.");
    }

    private static long[] dims(int spatial, long first, long second, long size) {
        long[] dims = new long[spatial + 2];
        Arrays.fill(dims, size);
        dims[0] = first;
        dims[1] = second;
        return dims;
    }

    /** Layouts: dense, last two dimensions swapped, every second element, rows within wider rows, channels last. */
    private static Tensor view(long[] dims, int layout) {
        int last = dims.length - 1;
        long[] strides = Shape.of(dims).contiguousStrides().clone();
        long length = Shape.of(dims).count();
        if (layout == 1 && last > 0) {
            strides[last] = dims[last - 1];
            strides[last - 1] = 1;
        } else if (layout == 2 || layout == 3) {
            long[] wide = dims.clone();
            wide[last] = layout == 2 ? 2 * dims[last] : dims[last] + 3;
            strides = Shape.of(wide).contiguousStrides().clone();
            strides[last] = layout == 2 ? 2 : 1;
            length = Shape.of(wide).count();
        } else if (layout == 4 && last > 0) {
            strides = ChannelsLast.strides(Shape.of(dims));
        }
        float[] values = new float[(int) Math.max(1, length)];
        for (int i = 0; i < values.length; i++) {
            values[i] = RANDOM.nextFloat() * 2 - 1;
        }
        Tensor line = Tensor.of(values, values.length);
        return line.storage().view(line.spec().with(Shape.of(dims)), strides, 0);
    }

    /** What lies between the rows is no operand; oneDNN's kernels for AMX read it where summands are odd in number. */
    @ParameterizedTest
    @CsvSource({"BF16, 1, 1", "BF16, 3, 1", "BF16, 3, 2", "F16, 1, 1", "F16, 3, 1"})
    void leavesOutWhatLiesBetweenRows(DType type, int summands, int columns) {
        try (Scope scope = Scope.open()) {
            float[] values = new float[17 * (summands + 1)];
            Arrays.fill(values, Float.NaN);
            for (int row = 0; row < 17; row++) {
                Arrays.fill(values, row * (summands + 1), row * (summands + 1) + summands, 1);
            }
            Tensor line = Tensor.of(values, values.length).to(type);
            long[] strides = {summands + 1, 1};
            Tensor left = line.storage().view(line.spec().with(Shape.of(17, summands)), strides, 0);
            float[] expected = new float[17 * columns];
            Arrays.fill(expected, summands / 4f);
            assertThat(left.matmul(Tensor.full(type, 0.25, summands, columns)).toFloats()).isEqualTo(expected);
        }
    }

    private static Tensor check(dev.starling.tensor.op.Op op, double tolerance, Tensor... inputs) {
        Tensor[] there = new Tensor[inputs.length];
        for (int i = 0; i < inputs.length; i++) {
            there[i] = inputs[i].to(Device.reference());
        }
        Tensor[] actual = Tensor.apply(op, inputs);
        Tensor[] expected = Tensor.apply(op, there);
        for (int i = 0; i < actual.length; i++) {
            double[] a = actual[i].toDoubles();
            double[] e = expected[i].toDoubles();
            assertThat(actual[i].spec().shape()).isEqualTo(expected[i].spec().shape());
            for (int j = 0; j < e.length; j++) {
                assertThat(a[j]).as("%s output %d at %d", op, i, j).isCloseTo(e[j], within(tolerance));
            }
        }
        return actual[0];
    }
}
