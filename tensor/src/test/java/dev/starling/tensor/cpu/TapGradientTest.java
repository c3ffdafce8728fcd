package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.op.Convolution.Conv;
import dev.starling.tensor.op.Convolution.ConvWeightGradient;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.program.Program;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TapGradientTest {
    /** Relative to the largest element of the result. */
    private static final double TOLERANCE = 2e-6;
    private static final int CASES = 150;

    @BeforeAll
    static void vectors() {
        assumeTrue(MachineCode.VECTOR_BITS > 0, "there is no machine code");
    }

    // From 8 to 31 taps, with and without bias; more images than groups; strides, paddings, dilations;
    // pixels that the kernel never covers, and kernels that cover only padding in places; rows for several calls.
    @ParameterizedTest
    @CsvSource({"8, 3, 32, 32, 32, 3, 3, 1, 1, 1", "33, 1, 16, 28, 28, 5, 5, 1, 2, 1", "70, 3, 64, 7, 5, 3, 3, 2, 1, 1",
        "8, 1, 16, 9, 11, 3, 3, 1, 0, 1", "9, 2, 48, 6, 6, 2, 2, 3, 0, 1", "8, 5, 16, 5, 7, 3, 2, 1, 2, 2",
        "12, 31, 16, 4, 3, 1, 1, 1, 0, 1", "8, 30, 32, 4, 3, 1, 1, 2, 3, 1", "8, 7, 16, 1, 1, 2, 2, 1, 4, 3",
        "10, 3, 16, 20, 20, 3, 3, 5, 1, 1", "8, 1, 16, 150, 200, 3, 4, 1, 1, 1", "8, 4, 16, 2, 9, 1, 7, 2, 3, 1"})
    void agreesWithTheDirectSum(int n, int in, int out, int h, int w, int kernelH, int kernelW, int stride, int padding,
            int dilation) {
        try (Scope scope = Scope.open()) {
            Generator random = Generator.seeded(n + h);
            Tensor x = random.normal(n, in, h, w);
            Geometry geometry = Geometry.of(2, stride, padding, dilation, 1);
            Tensor weight = random.normal(out, in, kernelH, kernelW);
            Tensor g = random.normal(Tensor.apply(new Conv(geometry, Epilogue.NONE), x, weight)[0].shape().dims());
            Tensor lastChannels = CopyKernels.channelsLast(x);
            check(geometry, weight.shape(), x, g, false);
            check(geometry, weight.shape(), lastChannels, CopyKernels.channelsLast(g), false);
            if (in * kernelH * kernelW < TapCode.MAX_SUMS) {
                check(geometry, weight.shape(), x, CopyKernels.channelsLast(g), true);
                check(geometry, weight.shape(), lastChannels, g, true);
            }
        }
    }

    /** The path of captured programs, on other values than those that were captured, also for operands to be copied. */
    @Test
    void agreesOnRandomShapesAndWhenCaptured() {
        SplittableRandom random = new SplittableRandom(20261128);
        Generator values = Generator.seeded(5);
        int cases = 0;
        while (cases < CASES) {
            int kernelH = random.nextInt(1, 6);
            int kernelW = random.nextInt(1, 6);
            int channels = random.nextInt(1, 32);
            int stride = random.nextInt(1, 4);
            int padding = random.nextInt(0, 4);
            int dilation = random.nextInt(1, 4);
            boolean bias = random.nextBoolean();
            long[] image = {random.nextInt(8, 40), channels, random.nextInt(1, 14), random.nextInt(1, 20)};
            long rows = image[2] + 2L * padding - (kernelH - 1L) * dilation;
            long columns = image[3] + 2L * padding - (kernelW - 1L) * dilation;
            Shape weight = Shape.of((long) TapCode.LANES * random.nextInt(1, 6), channels, kernelH, kernelW);
            if (rows < 1 || columns < 1) {
                continue;
            }
            long[] y = {image[0], weight.dim(0), (rows - 1) / stride + 1, (columns - 1) / stride + 1};
            Geometry geometry = Geometry.of(2, stride, padding, dilation, 1);
            ConvWeightGradient op = new ConvWeightGradient(geometry, weight, bias);
            if (!TapGradient.suits(op, DType.F32, Shape.of(image), weight, Shape.of(y))) {
                continue;
            }
            cases++;
            try (Scope scope = Scope.open()) {
                Supplier<Tensor[]> operands = operands(values, random.nextInt(3), image, y);
                Tensor[] first = operands.get();
                check(geometry, weight, first[0], first[1], bias);
                try (Program program = Program.capture(null, in -> Tensor.apply(op, in), first).program()) {
                    Tensor[] second = operands.get();
                    Tensor[] results = program.run(second);
                    Tensor[] expected = Tensor.apply(op, second);
                    for (int i = 0; i < expected.length; i++) {
                        assertThat(results[i].toFloats()).as("%s, captured", op).isEqualTo(expected[i].toFloats());
                    }
                }
            }
        }
    }

    /** Returns a source of operands that are row-major, channels-last, or neither. */
    private static Supplier<Tensor[]> operands(Generator values, int layout, long[] image, long[] y) {
        return () -> layout == 0 ? new Tensor[] {values.normal(image), values.normal(y)}
                : layout == 1 ? new Tensor[] {CopyKernels.channelsLast(values.normal(image)),
                    CopyKernels.channelsLast(values.normal(y))}
                : new Tensor[] {values.normal(image[3], image[1], image[2], image[0]).transpose(0, 3),
                    values.normal(y[2], y[1], y[0], y[3]).transpose(0, 2)};
    }

    private static void check(Geometry geometry, Shape weight, Tensor x, Tensor g, boolean bias) {
        ConvWeightGradient op = new ConvWeightGradient(geometry, weight, bias);
        assertThat(TapGradient.suits(op, DType.F32, x.shape(), weight, g.shape())).isTrue();
        Oracle.check((_, in, outputs) -> ConvolutionKernels.run(op, in, outputs), op, TOLERANCE, x, g);
    }
}
