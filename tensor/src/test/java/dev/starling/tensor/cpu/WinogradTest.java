package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.WinogradTiles;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Conv;
import dev.starling.tensor.op.Convolution.ConvInputGradient;
import dev.starling.tensor.op.Convolution.ConvWeightGradient;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.spi.Block;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The oracle is the reference device in double precision. */
class WinogradTest {
    /** Relative to the root mean square of the result. */
    private static final double TOLERANCE = 3e-5;

    @BeforeAll
    static void vectors() {
        assumeTrue(!RowLoops.FASTEST.winograd().isEmpty(), "this process has no transforms");
    }

    // Even and odd sizes, paddings 0 to 2, tiles of both sizes, and tiles that do or do not fill blocks; in the last
    // three the sums of a weight's gradient are larger than the transformed images.
    @ParameterizedTest
    @CsvSource({"8, 32, 32, 9, 11, 1", "3, 48, 64, 16, 16, 1", "9, 64, 32, 8, 8, 0", "5, 32, 48, 12, 7, 2",
        "4, 160, 128, 8, 9, 1", "64, 32, 32, 2, 2, 1", "32, 32, 48, 8, 9, 1", "3, 64, 32, 30, 27, 2",
        "70, 32, 32, 7, 5, 0", "33, 33, 35, 5, 9, 1",
        "3, 160, 144, 9, 9, 1", "16, 144, 208, 4, 4, 1", "128, 256, 256, 2, 2, 1"})
    void agreesWithTheDirectSum(int n, int in, int out, int h, int w, int padding) {
        try (Scope scope = Scope.open()) {
            Generator g = Generator.seeded(n + h);
            Tensor x = g.normal(n, in, h, w);
            Tensor weight = g.normal(out, in, 3, 3);
            Tensor bias = g.normal(out);
            Geometry geometry = Geometry.of(2, 1, padding, 1, 1);
            Tensor y = check(new Conv(geometry, Epilogue.NONE), x, weight, bias);
            check(new Conv(geometry, Epilogue.RELU), x, weight);
            Tensor gradient = g.normal(y.shape().dims());
            check(new ConvInputGradient(geometry, x.shape()), gradient, weight);
            check(new ConvWeightGradient(geometry, weight.shape(), true), x, gradient);
        }
    }

    /** Nine blocks of tiles do not fill four groups of two; memory for a fifth one would not be written. */
    @Test
    void sumsAllBlocksOfTilesAndNothingElse() {
        HostAllocator memory = HostAllocator.shared();
        for (int bits = 18; bits <= 24; bits++) {
            Block block = memory.allocate(1L << bits);
            HostMemory.ALL.asSlice(block.address(), 1L << bits).fill((byte) -1);
            memory.free(block);
        }
        try (Scope scope = Scope.open()) {
            Generator g = Generator.seeded(9);
            Tensor x = g.normal(18, 32, 32, 32);
            check(new ConvWeightGradient(Geometry.of(2, 1, 1, 1, 1), Shape.of(32, 32, 3, 3), false), x,
                    g.normal(18, 32, 32, 32));
        }
    }

    private static Tensor check(Convolution op, Tensor... inputs) {
        assertThat(transforms(op, inputs)).isNotNull();
        Tensor[] results = Threads.with(1, () -> Tensor.apply(op, inputs));
        Tensor[] onTwoThreads = Threads.with(2, () -> Tensor.apply(op, inputs));
        Tensor[] exact = new Tensor[inputs.length];
        for (int i = 0; i < exact.length; i++) {
            exact[i] = inputs[i].to(DType.F64).to(Device.reference());
        }
        Tensor[] expected = Tensor.apply(op, exact);
        for (int i = 0; i < results.length; i++) {
            assertThat(onTwoThreads[i].toFloats()).isEqualTo(results[i].toFloats());
            double[] e = expected[i].toDoubles();
            double[] r = results[i].toDoubles();
            double scale = Math.sqrt(expected[i].square().mean().item());
            double largest = IntStream.range(0, e.length).mapToDouble(k -> Math.abs(r[k] - e[k])).max().orElse(0);
            assertThat(largest).isLessThanOrEqualTo(TOLERANCE * scale);
        }
        return results[0];
    }

    private static @Nullable WinogradTiles transforms(Convolution op, Tensor[] in) {
        return switch (op) {
            case Conv c -> Winograd.transforms(c, DType.F32, in[1].shape(),
                    c.infer(in[0].spec(), in[1].spec())[0].shape());
            case ConvInputGradient c -> Winograd.transforms(c, DType.F32, in[1].shape(), c.shape());
            case ConvWeightGradient c -> Winograd.transforms(c, DType.F32, c.shape(), in[1].shape());
        };
    }
}
