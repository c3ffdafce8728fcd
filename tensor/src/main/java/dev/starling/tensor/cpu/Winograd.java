package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.WinogradTiles;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.ChannelsLast;
import dev.starling.tensor.spi.Form;
import dev.starling.tensor.spi.VectorApi;
import java.util.Objects;
import java.util.function.LongConsumer;

/**
 * Convolutions with 3×3 kernels and stride 1 by Winograd's minimal filtering F(2×2, 3×3): 2.25 times fewer
 * multiplications, as 16 matrix products per block of tiles, which stays in the processor's cache between its
 * transforms. The result is within a few rounding units of the direct sum. (Lavin and Gray, 2015)
 */
final class Winograd {
    private static final boolean ENABLED = VectorApi.isPresent()
            && !"false".equals(System.getProperty("starling.winograd"));
    private static final int PLANES = 16;
    /** Bytes between planes, so that a pixel's 16 values fall into different sets of the first-level cache. */
    private static final long GAP = 192;
    /** Begins the keys of transformed kernels; those of packed weights begin with the rank. */
    private static final long TRANSFORMED = -1;
    private static final int MIN_CHANNELS = 32;
    private static final int MIN_TILES = 64;
    private static final int MIN_BLOCK = 16;
    private static final int FEW_CHANNELS = 256;
    private static final long MAX_PARTIAL_BYTES = 64L << 20;
    private static final int MAX_GROUPS = 8;

    /** Images {@code [N, H, W, C]}, read in tiles: patches of 4×4 at distance 2, the first at -padding. */
    private record Images(long address, long n, long h, long w, int channels) {
        static Images of(Tensor x) {
            return new Images(x.address(), x.size(0), x.size(2), x.size(3), Math.toIntExact(x.size(1)));
        }

        int rowBytes() {
            return 4 * channels;
        }

        /**
         * Finds the pixels of a square of {@code side} at (row, column); those outside the image map to
         * {@code elsewhere}.
         */
        void square(long image, long row, long column, int side, long elsewhere, long[] at) {
            long base = address + image * h * w * rowBytes();
            for (int i = 0; i < side; i++) {
                long y = row + i;
                for (int j = 0; j < side; j++) {
                    long x = column + j;
                    boolean inside = y >= 0 && y < h && x >= 0 && x < w;
                    at[i * side + j] = inside ? base + (y * w + x) * rowBytes() : elsewhere;
                }
            }
        }
    }

    private final Images in;
    private final Images out;
    private final int padH;
    private final int padW;
    private final long tilesW;
    private final long tilesPerImage;
    private final long tiles;
    private final int block;

    /** Makes the request; {@code threads} is how many should get a block at least, where sums do not depend on it. */
    private Winograd(Images in, Images out, int padH, int padW, int threads) {
        this.in = in;
        this.out = out;
        this.padH = padH;
        this.padW = padW;
        tilesW = Math.ceilDiv(out.w, 2L);
        tilesPerImage = Math.ceilDiv(out.h, 2L) * tilesW;
        tiles = out.n * tilesPerImage;
        int most = in.channels + out.channels <= FEW_CHANNELS ? 64 : 128;
        block = Math.clamp(Math.ceilDiv(tiles, (long) threads), MIN_BLOCK, most);
    }

    /** Returns whether this algorithm can, and should, compute a convolution of these shapes. */
    static boolean suits(Convolution op, DType dtype, Shape weight, Shape y) {
        Geometry g = op.geometry();
        if (!ENABLED || dtype != DType.F32 || g.rank() != 2 || g.groups() != 1 || weight.dim(2) != 3
                || weight.dim(3) != 3) {
            return false;
        }
        for (int i = 0; i < 2; i++) {
            if (g.stride()[i] != 1 || g.dilation()[i] != 1 || g.padding()[i] > 2) {
                return false;
            }
        }
        long tiles = y.dim(0) * Math.ceilDiv(y.dim(2), 2L) * Math.ceilDiv(y.dim(3), 2L);
        return weight.dim(0) % WinogradTiles.LANES == 0 && weight.dim(1) % WinogradTiles.LANES == 0
                && Math.min(weight.dim(0), weight.dim(1)) >= MIN_CHANNELS && tiles >= MIN_TILES;
    }

    static Tensor[] forward(Convolution.Conv op, Tensor[] in, Spec output) {
        Tensor x = CopyKernels.channelsLast(in[0]);
        Tensor y = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        int[] pad = op.geometry().padding();
        long bias = in.length == 2 ? 0 : CopyKernels.dense(in[2]).address();
        new Winograd(Images.of(x), Images.of(y), pad[0], pad[1], Parallel.threads())
                .convolve(in[1], false, bias, op.epilogue() == Epilogue.RELU);
        return new Tensor[] {y};
    }

    /** The gradient of the input is a convolution of the output's gradient with kernels rotated by 180 degrees. */
    static Tensor[] inputGradient(Convolution.ConvInputGradient op, Tensor[] in, Spec output) {
        Tensor g = CopyKernels.channelsLast(in[0]);
        Tensor x = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        int[] pad = op.geometry().padding();
        new Winograd(Images.of(g), Images.of(x), 2 - pad[0], 2 - pad[1], Parallel.threads())
                .convolve(in[1], true, 0, false);
        return new Tensor[] {x};
    }

    private void convolve(Tensor weight, boolean turned, long bias, boolean relu) {
        HostAllocator memory = HostAllocator.shared();
        try (Form kernels = kernels(weight, turned)) {
            Parallel.forRange(Math.ceilDiv(tiles, (long) block), 1, (from, to) -> {
                long plane = (long) block * in.rowBytes() + GAP;
                long resultPlane = (long) block * out.rowBytes() + GAP;
                Block scratch = memory.allocate(PLANES * (plane + resultPlane) + in.rowBytes() + 2L * out.rowBytes()
                        + WinogradTiles.SCRATCH);
                try {
                    long v = scratch.address();
                    long m = v + PLANES * plane;
                    long none = m + PLANES * resultPlane;
                    long shift = none + in.rowBytes();
                    ALL.asSlice(none, in.rowBytes() + out.rowBytes()).fill((byte) 0);
                    for (long b = from; b < to; b++) {
                        int n = (int) Math.min(block, tiles - b * block);
                        patches(b * block, n, none, shift + 2L * out.rowBytes(), v, plane);
                        multiply(n, v, plane / 4, kernels.address(), m, resultPlane / 4);
                        results(b * block, n, m, resultPlane, shift + 2L * out.rowBytes(),
                                bias == 0 ? shift : bias, relu, shift + out.rowBytes());
                    }
                } finally {
                    memory.free(scratch);
                }
            });
        }
    }

    /** Returns the transformed kernels: those that the weight's storage keeps, or new ones. */
    private Form kernels(Tensor weight, boolean turned) {
        long bytes = PLANES * kernelPlane();
        Form.Key key = new Form.Key(weight.offset(), weight.strides(),
                new long[] {TRANSFORMED, in.channels, out.channels, turned ? 1 : 0});
        Form.Writer writer = to -> transformKernels(weight, turned, to);
        Form kept = weight.storage().isReused(key, 1) ? weight.storage().form(key, bytes, writer) : null;
        return kept != null ? kept : Form.of(HostAllocator.shared(), bytes, writer);
    }

    private long kernelBytes() {
        return 4L * in.channels * out.channels;
    }

    private long kernelPlane() {
        return kernelBytes() + GAP;
    }

    /** Writes 16 planes {@code [in, out]} of transformed kernels. */
    private void transformKernels(Tensor weight, boolean turned, long u) {
        long bytes = kernelBytes();
        Block scratch = HostAllocator.shared().allocate(9 * bytes);
        try {
            Tensor nine = Tensor.wrap(ALL.asSlice(scratch.address(), 9 * bytes), DType.F32, 9, in.channels,
                    out.channels);
            // As [out, in, 3, 3] of this convolution; the rotation reverses both spatial dimensions.
            long[] to = turned ? new long[] {out.channels, 1, -3 * bytes / 4, -bytes / 4}
                    : new long[] {1, out.channels, 3 * bytes / 4, bytes / 4};
            StridedCopy.copy(weight, nine.storage().view(weight.spec(), to, turned ? 8 * bytes / 4 : 0));
            Parallel.forRange(bytes / 64, 1024, (from, end) -> withSteps(steps ->
                    WinogradTiles.kernels(scratch.address(), bytes, steps, u, kernelPlane(), from * 64, end * 64)));
        } finally {
            HostAllocator.shared().free(scratch);
        }
    }

    private static void withSteps(LongConsumer body) {
        Block steps = HostAllocator.shared().allocate(WinogradTiles.SCRATCH);
        try {
            body.accept(steps.address());
        } finally {
            HostAllocator.shared().free(steps);
        }
    }

    private void patches(long first, int n, long none, long steps, long v, long plane) {
        long[] at = new long[16];
        for (int t = 0; t < n; t++) {
            long place = (first + t) % tilesPerImage;
            in.square((first + t) / tilesPerImage, place / tilesW * 2 - padH, place % tilesW * 2 - padW, 4, none, at);
            WinogradTiles.patch(at, in.rowBytes(), steps, v + (long) t * in.rowBytes(), plane);
        }
    }

    private void multiply(int n, long v, long plane, long u, long m, long resultPlane) {
        int c = in.channels;
        int o = out.channels;
        new Matmul(ElementType.F32, ElementType.F32, n, o, c).left(v, c, 1).right(u, o, 1).result(m, o)
                .batch(PLANES, plane, kernelPlane() / 4, resultPlane).run();
    }

    private void results(long first, int n, long m, long plane, long steps, long bias, boolean relu,
            long nowhere) {
        long[] at = new long[4];
        for (int t = 0; t < n; t++) {
            long place = (first + t) % tilesPerImage;
            out.square((first + t) / tilesPerImage, place / tilesW * 2, place % tilesW * 2, 2, nowhere, at);
            WinogradTiles.pixels(m + (long) t * out.rowBytes(), plane, out.rowBytes(), steps, bias, relu, at);
        }
    }

    static Tensor[] weightGradient(Convolution.ConvWeightGradient op, Tensor[] in, Spec[] outputs) {
        Tensor x = CopyKernels.channelsLast(in[0]);
        Tensor g = CopyKernels.channelsLast(in[1]);
        Tensor weight = Storage.allocate(outputs[0]);
        int[] pad = op.geometry().padding();
        new Winograd(Images.of(x), Images.of(g), pad[0], pad[1], 1).correlate(weight);
        if (!op.bias()) {
            return new Tensor[] {weight};
        }
        Reduction sum = new Reduction.Sum(Axes.of(g.shape(), 0, 2, 3), false);
        return new Tensor[] {weight, Objects.requireNonNull(ReductionKernels.run(sum, g, outputs[1]))[0]};
    }

    /**
     * Blocks are assigned to groups by sizes alone, each group with its own sum, so that threads do not change bits.
     */
    private void correlate(Tensor weight) {
        HostAllocator memory = HostAllocator.shared();
        long bytes = kernelPlane();
        long blocks = Math.ceilDiv(tiles, (long) block);
        int groups = Math.clamp(Math.min(blocks / 2, MAX_PARTIAL_BYTES / (PLANES * bytes)), 1, MAX_GROUPS);
        Block sums = memory.allocate(groups * PLANES * bytes);
        try {
            long share = Math.ceilDiv(blocks, (long) groups);
            Parallel.forRange(groups, 1, (from, to) -> {
                for (long group = from; group < to; group++) {
                    accumulate(group * share, Math.min(blocks, (group + 1) * share),
                            sums.address() + group * PLANES * bytes);
                }
            });
            for (int group = 1; group < groups; group++) {
                long other = sums.address() + group * PLANES * bytes;
                Parallel.forRange(PLANES, 1, (from, to) -> {
                    for (long p = from; p < to; p++) {
                        RowLoops.FASTEST.matrix().columnSums(other + p * bytes, bytes, 1, in.channels * out.channels,
                                sums.address() + p * bytes);
                    }
                });
            }
            transformBack(sums.address(), weight);
        } finally {
            memory.free(sums);
        }
    }

    private void accumulate(long from, long to, long sum) {
        HostAllocator memory = HostAllocator.shared();
        long plane = (long) block * in.rowBytes() + GAP;
        long gradientPlane = (long) block * out.rowBytes() + GAP;
        Block scratch = memory.allocate(PLANES * (plane + gradientPlane) + in.rowBytes() + out.rowBytes()
                + WinogradTiles.SCRATCH);
        try {
            long v = scratch.address();
            long z = v + PLANES * plane;
            long none = z + PLANES * gradientPlane;
            ALL.asSlice(none, in.rowBytes() + out.rowBytes()).fill((byte) 0);
            for (long b = from; b < to; b++) {
                int n = (int) Math.min(block, tiles - b * block);
                patches(b * block, n, none, none + in.rowBytes() + out.rowBytes(), v, plane);
                gradients(b * block, n, none, z, gradientPlane);
                int c = in.channels;
                int o = out.channels;
                new Matmul(ElementType.F32, ElementType.F32, c, o, n).left(v, 1, c).right(z, o, 1).result(sum, o)
                        .accumulate(b > from).batch(PLANES, plane / 4, gradientPlane / 4, kernelPlane() / 4).run();
            }
        } finally {
            memory.free(scratch);
        }
    }

    private void gradients(long first, int n, long none, long z, long plane) {
        long[] at = new long[4];
        for (int t = 0; t < n; t++) {
            long place = (first + t) % tilesPerImage;
            out.square((first + t) / tilesPerImage, place / tilesW * 2, place % tilesW * 2, 2, none, at);
            WinogradTiles.gradient(at, out.rowBytes(), z + (long) t * out.rowBytes(), plane);
        }
    }

    private void transformBack(long u, Tensor weight) {
        long bytes = kernelBytes();
        Block scratch = HostAllocator.shared().allocate(9 * bytes);
        try {
            Parallel.forRange(bytes / 64, 1024, (from, to) -> withSteps(steps -> WinogradTiles.kernelGradients(u,
                    kernelPlane(), steps, scratch.address(), bytes, from * 64, to * 64)));
            Tensor nine = Tensor.wrap(ALL.asSlice(scratch.address(), 9 * bytes), DType.F32, 9, in.channels,
                    out.channels);
            long[] from = {1, out.channels, 3 * bytes / 4, bytes / 4};
            StridedCopy.copy(nine.storage().view(weight.spec(), from, 0), weight);
        } finally {
            HostAllocator.shared().free(scratch);
        }
    }
}
