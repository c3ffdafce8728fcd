package dev.starling.tensor.cpu.onednn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.host.Parallel;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConvolutionTest {

    @ParameterizedTest
    @CsvSource({
        // spatial, batch, in, out, groups, size, kernel, stride, pad, dilation
        "2, 1, 1, 1, 1, 1, 1, 1, 0, 1",
        "2, 4, 3, 32, 1, 9, 3, 1, 1, 1",
        "2, 5, 16, 24, 1, 7, 3, 2, 1, 1",
        "2, 3, 17, 33, 1, 7, 1, 2, 0, 1",
        "2, 2, 8, 12, 4, 6, 3, 1, 1, 1",
        "2, 3, 32, 32, 32, 10, 3, 1, 1, 1",
        "2, 2, 6, 6, 6, 9, 5, 2, 2, 1",
        "2, 3, 5, 7, 1, 11, 3, 1, 2, 2",
        "2, 2, 4, 4, 2, 12, 3, 2, 3, 3",
        "2, 1, 16, 48, 1, 8, 3, 1, 1, 1",
        "2, 2, 48, 70, 1, 3, 3, 1, 1, 1",
        "1, 4, 40, 65, 1, 4, 3, 1, 1, 1",
        "1, 3, 5, 6, 1, 13, 4, 1, 0, 1",
        "1, 4, 16, 32, 2, 20, 3, 2, 1, 2",
        "3, 2, 3, 5, 1, 5, 3, 1, 1, 1",
        "3, 2, 4, 8, 2, 6, 2, 2, 0, 1",
        "2, 2, 3, 4, 1, 3, 3, 1, 0, 1",
        "2, 1, 48, 70, 1, 9, 3, 1, 1, 1",
        "1, 1, 32, 96, 1, 150, 3, 1, 1, 2"})
    void agreesWithPlainLoops(int spatial, long batch, long in, long out, long groups, long size, long kernel,
                                   long stride, long pad, long dilation) {
        ConvolutionShape shape = shape(spatial, batch, in, out, groups, size, kernel, stride, pad, dilation);
        for (int layouts = 0; layouts < 8; layouts++) {
            check(shape, layouts, (layouts & 1) == 0, 1, 3);
        }
    }

    @Test
    void agreesWithPlainLoopsOnRandomShapes() {
        Random random = new Random(7);
        for (int i = 0; i < 60; i++) {
            long groups = random.nextInt(4) == 0 ? 1 + random.nextInt(4) : 1;
            long kernel = 1 + random.nextInt(4);
            long dilation = 1 + random.nextInt(2);
            ConvolutionShape shape = shape(1 + random.nextInt(2), 1 + random.nextInt(5),
                groups * (1 + random.nextInt(20)), groups * (1 + random.nextInt(20)), groups,
                (kernel - 1) * dilation + 1 + random.nextInt(8), kernel, 1 + random.nextInt(3), random.nextInt(3),
                dilation);
            check(shape, random.nextInt(8), random.nextBoolean(), Parallel.threads());
        }
    }

    @Test
    void treatsEachSpatialDimensionOnItsOwn() {
        ConvolutionShape shape = new ConvolutionShape(3, 4, 6, 2, new long[] {9, 5}, new long[] {4, 7},
            new long[] {3, 2}, new long[] {2, 1}, new long[] {2, 1}, new long[] {1, 2}, new long[] {1, 1});
        check(shape, 0, true, Parallel.threads());
        check(shape, 7, false, Parallel.threads());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void convolvesBf16WhereTheProcessorCan(int threads) {
        if (!OneDnn.supports(ElementType.BF16)) {
            return;
        }
        ConvolutionShape shape = shape(2, 6, 8, 24, 1, 9, 3, 1, 1, 1);
        try (Arena arena = Arena.ofConfined()) {
            Naive naive = new Naive(shape, strides(shape.sourceDims(6), true), strides(weightDims(shape), false),
                strides(shape.destinationDims(6), true), arena);
            MemorySegment source = naive.source.toBf16(arena);
            MemorySegment weights = naive.weights.toBf16(arena);
            MemorySegment bias = naive.bias.toBf16(arena);
            MemorySegment gradient = naive.destination.toBf16(arena);
            MemorySegment out = arena.allocate(gradient.byteSize(), 64);
            Convolution convolution = new Convolution(ElementType.BF16, shape, naive.sourceStrides,
                naive.weightStrides, naive.destinationStrides);
            Parallel.withThreads(threads, () -> {
                convolution.forward(source.address(), weights.address(), bias.address(), out.address());
                assertBf16(out, naive.forward(true));
                convolution.backwardData(gradient.address(), weights.address(), source.address());
                assertBf16(source, naive.backwardData());
                source.copyFrom(naive.source.toBf16(arena));
                convolution.backwardWeights(source.address(), gradient.address(), weights.address(), bias.address());
                assertBf16(weights, naive.backwardWeights());
                assertBf16(bias, naive.backwardBias());
                return null;
            });
        }
    }

    private static void assertBf16(MemorySegment actual, double[] expected) {
        for (int i = 0; i < expected.length; i++) {
            if (!Double.isNaN(expected[i])) {
                assertThat((double) Floats.bf16At(actual, i)).as("%d", i)
                    .isCloseTo(expected[i], within(Math.abs(expected[i]) / 128 + 5e-3));
            }
        }
    }

    /** Two and three threads get three slices, of other sizes. */
    @Test
    void dividesOutputChannelsAnewForAnotherNumberOfThreads() {
        check(new ConvolutionShape(1, 32, 129, 1, new long[] {10, 10}, new long[] {8, 8}, new long[] {3, 3},
            new long[] {1, 1}, new long[] {1, 1}, new long[] {0, 0}, new long[] {0, 0}), 5, true, 2, 3, 2, 1);
    }

    @Test
    void refusesSizesThatDoNotFit() {
        assertThatThrownBy(() -> new ConvolutionShape(1, 3, 4, 2, new long[] {4}, new long[] {4}, new long[] {1},
            new long[] {1}, new long[] {1}, new long[] {0}, new long[] {0})).hasMessageContaining("groups 2");
        assertThatThrownBy(() -> new ConvolutionShape(1, 3, 4, 1, new long[] {4}, new long[] {4}, new long[] {3},
            new long[] {1}, new long[] {1}, new long[] {0}, new long[] {0})).hasMessageContaining("output size 2");
    }

    /** {@code layouts} has a bit each for source, weights and destination: whether it is channels-last. */
    private static void check(ConvolutionShape shape, int layouts, boolean bias, int... threads) {
        try (Arena arena = Arena.ofConfined()) {
            Naive naive = new Naive(shape, strides(shape.sourceDims(shape.batch()), (layouts & 1) != 0),
                strides(weightDims(shape), (layouts & 2) != 0),
                strides(shape.destinationDims(shape.batch()), (layouts & 4) != 0), arena);
            Plain plain = new Plain(naive.forward(bias), naive.backwardData(), naive.backwardWeights(),
                bias ? naive.backwardBias() : null);
            Convolution convolution = naive.request();
            for (int count : threads) {
                Parallel.withThreads(count, () -> {
                    check(naive, convolution, plain, arena, shape + " layouts " + layouts + " threads " + count);
                    return null;
                });
            }
        }
    }

    /** The results of plain loops; {@code bias} is {@code null} for a convolution without bias. */
    private record Plain(double[] forward, double[] data, double[] weights, double[] bias) { }

    private static void check(Naive naive, Convolution convolution, Plain plain, Arena arena, String as) {
        boolean bias = plain.bias != null;
        Floats out = Floats.filled(arena, naive.destinationLength, Float.NaN);
        convolution.forward(naive.source.address(), naive.weights.address(), bias ? naive.bias.address() : 0,
            out.address());
        assertClose(as + " forward", out, plain.forward);
        Floats sourceGradient = Floats.filled(arena, naive.sourceLength, Float.NaN);
        convolution.backwardData(naive.destination.address(), naive.weights.address(), sourceGradient.address());
        assertClose(as + " by data", sourceGradient, plain.data);
        Floats weightGradient = Floats.filled(arena, naive.weightLength, Float.NaN);
        Floats biasGradient = Floats.filled(arena, naive.shape.outChannels(), Float.NaN);
        convolution.backwardWeights(naive.source.address(), naive.destination.address(), weightGradient.address(),
            bias ? biasGradient.address() : 0);
        assertClose(as + " by weights", weightGradient, plain.weights);
        if (bias) {
            assertClose(as + " by bias", biasGradient, plain.bias);
        }
    }

    private static void assertClose(String as, Floats actual, double[] expected) {
        for (int i = 0; i < expected.length; i++) {
            double tolerance = 3e-5 + 3e-5 * Math.abs(expected[i]);
            if (!(Math.abs(actual.get(i) - expected[i]) <= tolerance)) {
                assertThat((double) actual.get(i)).as("%s at %d", as, i).isCloseTo(expected[i], within(tolerance));
            }
        }
    }

    private static ConvolutionShape shape(int spatial, long batch, long in, long out, long groups, long size,
                                          long kernel, long stride, long pad, long dilation) {
        long result = (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        return new ConvolutionShape(batch, in, out, groups, repeat(spatial, size), repeat(spatial, result),
            repeat(spatial, kernel), repeat(spatial, stride), repeat(spatial, dilation), repeat(spatial, pad),
            repeat(spatial, pad));
    }

    private static long[] repeat(int times, long value) {
        long[] all = new long[times];
        Arrays.fill(all, value);
        return all;
    }

    private static long[] weightDims(ConvolutionShape shape) {
        long[] dims = new long[shape.spatialDims() + 2];
        dims[0] = shape.outChannels();
        dims[1] = shape.inChannels() / shape.groups();
        System.arraycopy(shape.kernel(), 0, dims, 2, shape.spatialDims());
        return dims;
    }

    private static long[] strides(long[] dims, boolean channelsLast) {
        if (channelsLast) {
            return Layout.channelsLastStrides(dims);
        }
        long[] strides = new long[dims.length];
        long stride = 1;
        for (int i = dims.length - 1; i >= 0; i--) {
            strides[i] = stride;
            stride *= dims[i];
        }
        return strides;
    }

    /** A convolution by loops in double precision over all contributing pairs of elements. */
    private static final class Naive {
        final ConvolutionShape shape;
        final long[] sourceStrides;
        final long[] weightStrides;
        final long[] destinationStrides;
        final int sourceLength;
        final int weightLength;
        final int destinationLength;
        final Floats source;
        final Floats weights;
        final Floats destination;
        final Floats bias;

        Naive(ConvolutionShape shape, long[] sourceStrides, long[] weightStrides, long[] destinationStrides,
              Arena arena) {
            this.shape = shape;
            this.sourceStrides = sourceStrides;
            this.weightStrides = weightStrides;
            this.destinationStrides = destinationStrides;
            sourceLength = (int) product(shape.sourceDims(shape.batch()));
            weightLength = (int) product(ConvolutionTest.weightDims(shape));
            destinationLength = (int) product(shape.destinationDims(shape.batch()));
            source = Floats.random(arena, sourceLength, 1);
            weights = Floats.random(arena, weightLength, 2);
            destination = Floats.random(arena, destinationLength, 3);
            bias = Floats.random(arena, shape.outChannels(), 4);
        }

        Convolution request() {
            return new Convolution(ElementType.F32, shape, sourceStrides, weightStrides, destinationStrides);
        }

        double[] forward(boolean withBias) {
            double[] result = new double[destinationLength];
            if (withBias) {
                forEachDestination((oc, at) -> result[(int) at] = bias.get(oc));
            }
            forEachMeeting((s, w, d) -> result[(int) d] += (double) source.get(s) * weights.get(w));
            return result;
        }

        double[] backwardData() {
            double[] result = new double[sourceLength];
            forEachMeeting((s, w, d) -> result[(int) s] += (double) destination.get(d) * weights.get(w));
            return result;
        }

        double[] backwardWeights() {
            double[] result = new double[weightLength];
            forEachMeeting((s, w, d) -> result[(int) w] += (double) destination.get(d) * source.get(s));
            return result;
        }

        double[] backwardBias() {
            double[] result = new double[(int) shape.outChannels()];
            forEachDestination((oc, at) -> result[(int) oc] += destination.get(at));
            return result;
        }

        private void forEachDestination(Pair visit) {
            long[] dims = shape.destinationDims(shape.batch());
            for (long i = 0; i < product(dims); i++) {
                long[] index = unravel(i, dims);
                visit.at(index[1], offset(index, destinationStrides));
            }
        }

        private void forEachMeeting(Triple visit) {
            long[] outDims = shape.destinationDims(shape.batch());
            long[] weightDims = ConvolutionTest.weightDims(shape);
            long inGroup = shape.inChannels() / shape.groups();
            long outGroup = shape.outChannels() / shape.groups();
            long[][] rests = new long[(int) (product(weightDims) / weightDims[0])][];
            Arrays.setAll(rests, j -> unravel(j, Arrays.copyOfRange(weightDims, 1, weightDims.length)));
            long[] in = new long[outDims.length];
            long[] weight = new long[outDims.length];
            for (long i = 0; i < product(outDims); i++) {
                long[] out = unravel(i, outDims);
                for (long[] rest : rests) {
                    in[0] = out[0];
                    in[1] = out[1] / outGroup * inGroup + rest[0];
                    weight[0] = out[1];
                    weight[1] = rest[0];
                    boolean inside = true;
                    for (int d = 0; d < shape.spatialDims(); d++) {
                        weight[d + 2] = rest[d + 1];
                        in[d + 2] = out[d + 2] * shape.stride()[d] - shape.padLow()[d]
                            + rest[d + 1] * shape.dilation()[d];
                        inside &= in[d + 2] >= 0 && in[d + 2] < shape.in()[d];
                    }
                    if (inside) {
                        visit.at(offset(in, sourceStrides), offset(weight, weightStrides),
                            offset(out, destinationStrides));
                    }
                }
            }
        }

        private static long[] unravel(long flat, long[] dims) {
            long[] index = new long[dims.length];
            long rest = flat;
            for (int i = dims.length - 1; i >= 0; i--) {
                index[i] = rest % dims[i];
                rest /= dims[i];
            }
            return index;
        }

        private static long offset(long[] index, long[] strides) {
            long offset = 0;
            for (int i = 0; i < index.length; i++) {
                offset += index[i] * strides[i];
            }
            return offset;
        }

        private static long product(long[] dims) {
            return Arrays.stream(dims).reduce(1, Math::multiplyExact);
        }
    }

    private interface Pair {
        void at(long channel, long offset);
    }

    private interface Triple {
        void at(long source, long weight, long destination);
    }
}
