package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.ChannelsLast;

/** {@link Convolution} operations by kernels of Starling, for all types and strides. Their images are channels last. */
public final class ConvolutionKernels implements Kernels<Convolution> {
    /** Groups are the second dimension of a grid. */
    private static final int MAX_GROUPS = 65_535;
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    /** The fewest pixels that make a share of a weight's gradient worth a block. */
    private static final long MIN_SHARE = 256;
    /** The bit set of the channels' dimension. */
    private static final int CHANNELS = 1 << 1;

    private final Launcher launcher;
    private final ReductionKernels sums;

    private record ConvolutionKernel(String function, DType type, boolean relu) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("convolution", function, "T", Types.of(type), "C", Types.wide(type), "RELU", relu);
        }
    }

    /** Makes the family's kernels for a device. */
    public ConvolutionKernels(Launcher launcher, ReductionKernels sums) {
        this.launcher = launcher;
        this.sums = sums;
    }

    @Override
    public Tensor[] allocate(Convolution op, Tensor[] in, Spec[] outputs) {
        return op instanceof Convolution.ConvWeightGradient ? Kernels.super.allocate(op, in, outputs)
                : new Tensor[] {Storage.allocate(outputs[0], ChannelsLast.strides(outputs[0].shape()))};
    }

    @Override
    public Answer compute(Convolution op, Tensor[] in, Tensor[] out) {
        Tensor other = op instanceof Convolution.ConvWeightGradient ? in[1] : out[0];
        if (op.geometry().groups() > MAX_GROUPS || pixels(in[0]) > Layout.MAX_COUNT
                || pixels(other) > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        return switch (op) {
            case Convolution.Conv c -> forward(c, in, out[0]);
            case Convolution.ConvInputGradient c -> inputGradient(c, in, out[0]);
            case Convolution.ConvWeightGradient c -> {
                if (out[0].count() > 0) {
                    shares(c, in[0], in[1], out[0]);
                }
                yield biasGradient(sums, c, in[1], out);
            }
        };
    }

    /** Returns the number of pixels of all images, which the kernels count in 32 bits. */
    private static long pixels(Tensor images) {
        return images.count() / Math.max(1, images.size(1));
    }

    private Answer forward(Convolution.Conv op, Tensor[] in, Tensor y) {
        Tensor bias = in.length == 3 ? in[2] : null;
        if (y.count() > 0) {
            Launch launch = launch("forward", y.dtype(), op.epilogue() == Epilogue.RELU).tensor(y).tensor(in[0])
                    .tensor(in[1]).tensor(bias).i64(bias == null ? 0 : bias.stride(0));
            problem(launch, op.geometry(), in[0], in[1], y);
            tiles(launch, y.count() / y.size(1), y.size(1), op.geometry().groups(), 1);
        }
        return Answer.HANDLED;
    }

    private Answer inputGradient(Convolution.ConvInputGradient op, Tensor[] in, Tensor x) {
        if (x.count() > 0) {
            Launch launch = launch("input_gradient", x.dtype(), false).tensor(x).tensor(in[0]).tensor(in[1]);
            problem(launch, op.geometry(), x, in[1], in[0]);
            tiles(launch, x.count() / x.size(1), x.size(1), op.geometry().groups(), 1);
        }
        return Answer.HANDLED;
    }

    /** Sums the gradient {@code g} of the results over all pixels, for the bias's gradient, if there is a bias. */
    public static Answer biasGradient(ReductionKernels sums, Convolution.ConvWeightGradient op, Tensor g,
            Tensor[] out) {
        Reduction.Sum overPixels = new Reduction.Sum(new Axes((1 << g.rank()) - 1 - CHANNELS), false);
        return op.bias() ? sums.compute(overPixels, g, out[1]) : Answer.HANDLED;
    }

    /** Splits the sum over pixels into shares, so that there are blocks for all multiprocessors. */
    private void shares(Convolution.ConvWeightGradient op, Tensor x, Tensor g, Tensor w) {
        int groups = op.geometry().groups();
        long rows = w.size(0) / groups;
        long columns = w.count() / w.size(0);
        long pixels = Math.max(1, g.count() / g.size(1));
        long blocks = Math.ceilDiv(rows, (long) TILE) * Math.ceilDiv(columns, (long) TILE) * groups;
        long shares = Math.clamp(4L * launcher.gpu().processors() / blocks, 1, Math.ceilDiv(pixels, MIN_SHARE));
        long share = Math.ceilDiv(pixels, shares);
        shares = Math.ceilDiv(pixels, share);
        Tensor parts = Storage.allocate(new Spec(Types.sums(w.dtype()), Shape.of(shares, w.count()), w.device()));
        Launch launch = launch("weight_gradient", w.dtype(), false).tensor(parts).tensor(x).tensor(g);
        tiles(problem(launch, op.geometry(), x, w, g).i64(share), rows, columns * groups, groups, (int) shares);
        problem(launch("add_shares", w.dtype(), false).tensor(w).tensor(parts).i32((int) shares), op.geometry(), x, w,
                g).threads(w.count());
    }

    private Launch launch(String function, DType type, boolean relu) {
        return launcher.launch(new ConvolutionKernel(function, type, relu));
    }

    private static void tiles(Launch launch, long rows, long columns, int groups, int shares) {
        long tiles = Math.ceilDiv(rows, (long) TILE) * Math.ceilDiv(columns / groups, (long) TILE);
        launch.grid(Math.toIntExact(tiles), groups, shares, TILE_THREADS);
    }

    /** Appends the struct {@code Problem}. */
    private static Launch problem(Launch launch, Convolution.Geometry g, Tensor x, Tensor w, Tensor y) {
        return launch.align(8).size(x, 0).i32(g.groups()).size(w, 1).i32(Math.toIntExact(w.size(0) / g.groups()))
                .spatialSizes(x).spatialSizes(y).spatialSizes(w).spatial(g.stride(), 1).spatial(g.padding(), 0)
                .spatial(g.dilation(), 1).imageStrides(x).imageStrides(w).imageStrides(y);
    }
}
