package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.dnn.ConvolutionCall;
import dev.starling.cuda.dnn.ConvolutionLibrary;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.ChannelsLast;

/**
 * {@link Convolution} operations: by the vendor's library if it supports type and rank, else by kernels of Starling,
 * which support all types and strides. Their images are channels last. With a library, so are the gradients of weights,
 * since the library expects weights in that layout.
 */
public final class ConvolutionKernels {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    /** The fewest pixels that make a share of a weight's gradient worth a block. */
    private static final long MIN_SHARE = 256;
    /** The bit set of the channels' dimension. */
    private static final int CHANNELS = 1 << 1;

    private final Launcher launcher;
    private final ReductionKernels sums;
    private final ConvolutionLibrary library;

    private record ConvolutionKernel(String function, DType type, boolean relu) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("convolution", function, "T", Types.of(type), "C", Types.wide(type), "RELU",
                    relu ? "1" : "0");
        }
    }

    /**
     * Makes the family's kernels for a device.
     *
     * @param sums the kernels for sums
     * @param library the library for convolutions, or {@code null}
     */
    public ConvolutionKernels(Launcher launcher, ReductionKernels sums, ConvolutionLibrary library) {
        this.launcher = launcher;
        this.sums = sums;
        this.library = library;
    }

    /** Returns whether a library computes convolutions of the types that it supports. */
    public boolean usesLibrary() {
        return library != null;
    }

    /** Returns the results, or {@code null} if there are too many pixels. */
    public Tensor[] run(Convolution op, Tensor[] in, Spec[] outputs) {
        return switch (op) {
            case Convolution.Conv c -> forward(c, in, outputs[0]);
            case Convolution.ConvInputGradient c -> inputGradient(c, in, outputs[0]);
            case Convolution.ConvWeightGradient c -> weightGradient(c, in, outputs);
        };
    }

    private Tensor[] forward(Convolution.Conv op, Tensor[] in, Spec output) {
        Tensor y = Tensor.allocate(output, ChannelsLast.strides(output.shape()));
        boolean relu = op.epilogue() == Epilogue.RELU;
        Tensor bias = in.length == 3 ? in[2] : null;
        if (y.count() > 0 && !forwardByLibrary(op, in[0], in[1], bias, relu, y)) {
            Launch launch = launch("forward", y.dtype(), relu).tensor(y).tensor(in[0]).tensor(in[1]).tensor(bias)
                    .i64(bias == null ? 0 : bias.strides()[0]);
            problem(launch, op.geometry(), in[0], in[1], y);
            tiles(launch, y.count() / y.size(1), y.size(1), op.geometry().groups(), 1);
        }
        return new Tensor[] {y};
    }

    private Tensor[] inputGradient(Convolution.ConvInputGradient op, Tensor[] in, Spec output) {
        Tensor x = Tensor.allocate(output, ChannelsLast.strides(output.shape()));
        if (x.count() > 0 && !inputGradientByLibrary(op, in[0], in[1], x)) {
            Launch launch = launch("input_gradient", x.dtype(), false).tensor(x).tensor(in[0]).tensor(in[1]);
            problem(launch, op.geometry(), x, in[1], in[0]);
            tiles(launch, x.count() / x.size(1), x.size(1), op.geometry().groups(), 1);
        }
        return new Tensor[] {x};
    }

    private Tensor[] weightGradient(Convolution.ConvWeightGradient op, Tensor[] in, Spec[] outputs) {
        Shape shape = outputs[0].shape();
        Tensor w = Tensor.allocate(outputs[0], usesLibrary() ? ChannelsLast.strides(shape) : shape.contiguousStrides());
        Tensor x = in[0];
        Tensor g = in[1];
        if (w.count() > 0 && !weightGradientByLibrary(op, x, g, w)) {
            shares(op, x, g, w);
        }
        if (!op.bias()) {
            return new Tensor[] {w};
        }
        Reduction.Sum overPixels = new Reduction.Sum(new Axes((1 << g.rank()) - 1 - CHANNELS), false);
        Tensor[] bias = sums.run(overPixels, new Tensor[] {g}, outputs[1]);
        if (bias == null) {
            w.close();
            return null;
        }
        return new Tensor[] {w, bias[0]};
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
        DType wide = w.dtype() == DType.F64 ? DType.F64 : DType.F32;
        Tensor parts = Tensor.allocate(new Spec(wide, Shape.of(shares, w.count()), w.device()));
        Launch launch = launch("weight_gradient", w.dtype(), false).tensor(parts).tensor(x).tensor(g);
        tiles(problem(launch, op.geometry(), x, w, g).i64(share), rows, columns * groups, groups, (int) shares);
        problem(launch("add_shares", w.dtype(), false).tensor(w).tensor(parts).i32((int) shares), op.geometry(), x, w,
                g).threads(w.count());
        parts.close();
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
        launch.align(8).i32(size(x, 0)).i32(g.groups()).i32(size(w, 1)).i32(size(w, 0) / g.groups());
        sizes(launch, x);
        sizes(launch, y);
        sizes(launch, w);
        geometry(launch, g.stride(), 1);
        geometry(launch, g.padding(), 0);
        geometry(launch, g.dilation(), 1);
        for (Tensor t : new Tensor[] {x, w, y}) {
            launch.i64(t.strides()[0]).i64(t.strides()[1]);
            for (int d = t.rank() - 3; d < t.rank(); d++) {
                launch.i64(d < 2 ? 0 : t.strides()[d]);
            }
        }
        return launch;
    }

    private static int size(Tensor x, int axis) {
        return Math.toIntExact(x.size(axis));
    }

    private static void sizes(Launch launch, Tensor x) {
        for (int d = x.rank() - 3; d < x.rank(); d++) {
            launch.i32(d < 2 ? 1 : size(x, d));
        }
    }

    private static void geometry(Launch launch, int[] values, int missing) {
        for (int d = values.length - 3; d < values.length; d++) {
            launch.i32(d < 0 ? missing : values[d]);
        }
    }

    private boolean supported(Convolution op, Tensor a, Tensor b, Tensor c) {
        return library != null && library.supports(a.dtype())
                && ConvolutionCall.supports(op.geometry(), a.shape(), b.shape(), c.shape());
    }

    private boolean forwardByLibrary(Convolution.Conv op, Tensor x, Tensor w, Tensor bias, boolean relu, Tensor y) {
        if (!supported(op, x, w, y)) {
            return false;
        }
        Tensor image = channelsLast(x);
        Tensor weight = channelsLast(w);
        ConvolutionCall call = ConvolutionCall.of(op.geometry(), y.dtype(), x.shape(), w.shape(), y.shape());
        Tensor shift = bias == null || bias.isContiguous() && isAligned(bias) ? bias : launcher.copied(bias);
        boolean done = library.forward(call, image.address(), weight.address(), shift == null ? 0 : shift.address(),
                relu, y.address());
        close(image, x);
        close(weight, w);
        close(shift, bias);
        return done;
    }

    private boolean inputGradientByLibrary(Convolution.ConvInputGradient op, Tensor g, Tensor w, Tensor x) {
        if (!supported(op, g, w, x)) {
            return false;
        }
        Tensor image = channelsLast(g);
        Tensor weight = channelsLast(w);
        boolean done = library.inputGradient(
                ConvolutionCall.of(op.geometry(), x.dtype(), x.shape(), w.shape(), g.shape()), image.address(),
                weight.address(), x.address());
        close(image, g);
        close(weight, w);
        return done;
    }

    private boolean weightGradientByLibrary(Convolution.ConvWeightGradient op, Tensor x, Tensor g, Tensor w) {
        if (!supported(op, x, g, w)) {
            return false;
        }
        Tensor image = channelsLast(x);
        Tensor gradient = channelsLast(g);
        boolean done = library.weightGradient(
                ConvolutionCall.of(op.geometry(), w.dtype(), x.shape(), w.shape(), g.shape()), image.address(),
                gradient.address(), w.address());
        close(image, x);
        close(gradient, g);
        return done;
    }

    private Tensor channelsLast(Tensor x) {
        if (ChannelsLast.holds(x) && isAligned(x)) {
            return x;
        }
        Tensor y = Tensor.allocate(x.spec(), ChannelsLast.strides(x.shape()));
        launcher.assign(y, x);
        return y;
    }

    /** Returns whether a tensor is aligned for libraries. Allocations are; views into them may not be. */
    private static boolean isAligned(Tensor x) {
        return x.address() % ConvolutionLibrary.ALIGNMENT == 0;
    }

    private static void close(Tensor copy, Tensor original) {
        if (copy != original) {
            copy.close();
        }
    }
}
