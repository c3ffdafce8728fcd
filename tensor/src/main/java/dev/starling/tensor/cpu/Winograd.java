package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.gemm.Gemm;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.WinogradTiles;
import dev.starling.tensor.cpu.rows.WinogradTiles.Squares;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.ChannelsLast;
import dev.starling.tensor.spi.Form;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Convolutions with 3×3 kernels and stride 1 by Winograd's minimal filtering: F(4×4, 3×3) with 4 times fewer
 * multiplications, as 36 matrix products per block of tiles, or F(2×2, 3×3) with 2.25 times fewer, as 16 products. A
 * block stays in the processor's cache between its transforms. docs/numerics.md tells the rounding. (Lavin and Gray,
 * 2015)
 */
final class Winograd {
    private static final List<WinogradTiles> TILES = tiles(System.getProperty("starling.winograd", ""));
    /** Bytes between planes, so that a pixel's values fall into different sets of the first-level cache. */
    static final long GAP = 192;
    /** Begins the keys of transformed kernels; those of packed weights begin with the rank. */
    private static final long TRANSFORMED = -1;
    private static final int MAX_SIDE = 4;
    private static final int MIN_CHANNELS = 32;
    private static final int MIN_TILES = 64;
    /** Tiles of 4×4 pixels from which on F(4×4, 3×3) pays for its larger kernels. */
    private static final int MIN_LARGE_TILES = 128;
    private static final int MIN_BLOCK = 16;
    /** Tiles of a block: more rows of a product share what it reads of the kernels, and fewer stay in the cache. */
    private static final int MAX_BLOCK = 128;
    /** Channels whose kernels are transformed together, while they are in the cache. */
    private static final int MAX_TOGETHER = 32;

    /** Images {@code [N, H, W, C]}, read in patches of 4×4 at distance 2, or 6×6 at 4, the first at -padding. */
    record Images(long address, long n, long h, long w, int channels) {
        static Images of(Tensor x) {
            return new Images(x.address(), x.size(0), x.size(2), x.size(3), Math.toIntExact(x.size(1)));
        }

        int rowBytes() {
            return 4 * channels;
        }

        /**
         * Finds the pixels of the first of several squares of {@code side} at (row, column), whose columns are
         * {@code distance} apart; pixels outside the image map to {@code elsewhere}. Returns how many of {@code count}
         * squares have the same pixels inside.
         */
        int squares(long image, long row, long column, int distance, int count, long elsewhere, int side,
                Squares squares) {
            long base = address + image * h * w * rowBytes();
            boolean whole = column >= 0 && column + side <= w;
            for (int j = 0; j < side; j++) {
                long x = column + j;
                for (int i = 0; i < side; i++) {
                    long y = row + i;
                    boolean inside = y >= 0 && y < h && x >= 0 && x < w;
                    squares.at[j * side + i] = inside ? base + (y * w + x) * rowBytes() : elsewhere;
                    squares.step[j * side + i] = inside ? (long) distance * rowBytes() : 0;
                }
            }
            return whole ? (int) Math.min(count, (w - side - column) / distance + 1) : 1;
        }
    }

    /** What a thread needs for its part of the blocks; later parts reuse it. */
    static final class Part {
        static final IdlePool<Part> IDLE = new IdlePool<>();

        final Matmul product = new Matmul(ElementType.F32, ElementType.F32, 1, 1, 1);
        private final Squares patches = new Squares(MAX_SIDE + 2);
        private final Squares pixels = new Squares(MAX_SIDE);

        static Part acquire() {
            Part idle = IDLE.take();
            return idle == null ? new Part() : idle;
        }
    }

    final WinogradTiles transforms;
    private final int side;
    final int planes;
    final Images in;
    final Images out;
    private final int padH;
    private final int padW;
    private final long tilesW;
    private final long tilesPerImage;
    final long tiles;
    final int block;

    /** Makes the request; {@code threads} is how many should get a block at least, where sums do not depend on it. */
    private Winograd(WinogradTiles transforms, Images in, Images out, int padH, int padW, int threads) {
        this.transforms = transforms;
        side = transforms.side();
        planes = transforms.planes();
        this.in = in;
        this.out = out;
        this.padH = padH;
        this.padW = padW;
        tilesW = Math.ceilDiv(out.w, (long) side);
        tilesPerImage = Math.ceilDiv(out.h, (long) side) * tilesW;
        tiles = out.n * tilesPerImage;
        block = Math.clamp(Math.ceilDiv(tiles, (long) threads), MIN_BLOCK, MAX_BLOCK);
    }

    /** Returns the transforms that may be used: all, none, or those with tiles of a side. */
    private static List<WinogradTiles> tiles(String property) {
        return switch (property) {
            case "false" -> List.of();
            case "2", "4" -> RowLoops.FASTEST.winograd().stream()
                    .filter(t -> property.equals(Integer.toString(t.side()))).toList();
            default -> RowLoops.FASTEST.winograd();
        };
    }

    /** Returns the transforms for a convolution of these shapes, or {@code null} if another algorithm is to be used. */
    static @Nullable WinogradTiles transforms(Convolution op, DType dtype, Shape weight, Shape y) {
        Geometry g = op.geometry();
        if (dtype != DType.F32 || g.rank() != 2 || g.groups() != 1 || weight.dim(2) != 3 || weight.dim(3) != 3) {
            return null;
        }
        for (int i = 0; i < 2; i++) {
            if (g.stride()[i] != 1 || g.dilation()[i] != 1 || g.padding()[i] > 2) {
                return null;
            }
        }
        for (WinogradTiles t : TILES) {
            long count = y.dim(0) * Math.ceilDiv(y.dim(2), (long) t.side()) * Math.ceilDiv(y.dim(3), (long) t.side());
            if (weight.dim(0) % t.lanes() == 0 && weight.dim(1) % t.lanes() == 0
                    && Math.min(weight.dim(0), weight.dim(1)) >= MIN_CHANNELS
                    && count >= (t.side() == 2 ? MIN_TILES : MIN_LARGE_TILES)) {
                return t;
            }
        }
        return null;
    }

    static Tensor[] forward(WinogradTiles transforms, Convolution.Conv op, Tensor[] in, Spec output) {
        Tensor[] near = in.clone();
        near[0] = CopyKernels.channelsLast(in[0]);
        if (in.length > 2) {
            near[2] = CopyKernels.dense(in[2]);
        }
        Tensor y = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        try {
            request(transforms, op, near, y).run();
        } finally {
            release(near, in);
        }
        return new Tensor[] {y};
    }

    private static void release(Tensor[] near, Tensor[] in) {
        for (int i = 0; i < near.length; i++) {
            Layout.release(near[i], in[i]);
        }
    }

    /** Prepares what {@link #forward} does; {@code null} if an operand has to be copied. */
    static @Nullable Runnable prepare(WinogradTiles transforms, Convolution.Conv op, Tensor[] in, Tensor y) {
        return ChannelsLast.holds(in[0]) && (in.length == 2 || in[2].isContiguous())
                ? request(transforms, op, in, y) : null;
    }

    private static Runnable request(WinogradTiles transforms, Convolution.Conv op, Tensor[] in, Tensor y) {
        int[] pad = op.geometry().padding();
        return new Winograd(transforms, Images.of(in[0]), Images.of(y), pad[0], pad[1], Parallel.threads())
                .new Product(in[1], false, in.length == 2 ? 0 : in[2].address(), op.epilogue() == Epilogue.RELU);
    }

    /** The gradient of the input is a convolution of the output's gradient with kernels rotated by 180 degrees. */
    static Tensor[] inputGradient(WinogradTiles transforms, Convolution.ConvInputGradient op, Tensor[] in,
            Spec output) {
        Tensor x = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        Tensor g = CopyKernels.channelsLast(in[0]);
        try {
            request(transforms, op, g, in[1], x).run();
        } finally {
            Layout.release(g, in[0]);
        }
        return new Tensor[] {x};
    }

    /** Prepares what {@link #inputGradient} does; {@code null} if an operand has to be copied. */
    static @Nullable Runnable prepare(WinogradTiles transforms, Convolution.ConvInputGradient op, Tensor[] in,
            Tensor x) {
        return ChannelsLast.holds(in[0]) ? request(transforms, op, in[0], in[1], x) : null;
    }

    private static Runnable request(WinogradTiles transforms, Convolution.ConvInputGradient op, Tensor g,
            Tensor weight, Tensor x) {
        int[] pad = op.geometry().padding();
        return new Winograd(transforms, Images.of(g), Images.of(x), 2 - pad[0], 2 - pad[1], Parallel.threads())
                .new Product(weight, true, 0, false);
    }

    /** The convolution of the images in with a weight: products of transformed tiles and transformed kernels. */
    private final class Product implements Runnable, RangeTask {
        private final Storage storage;
        private final WinogradKernels kernels;
        private final Form.Key key;
        private final long bias;
        private final boolean relu;
        /** The address of the transformed kernels during a run. */
        private long transformed;

        Product(Tensor weight, boolean turned, long bias, boolean relu) {
            storage = weight.storage();
            kernels = new WinogradKernels(Winograd.this, weight, turned);
            key = new Form.Key(weight.offset(), weight.sharedStrides(),
                    new long[] {TRANSFORMED, in.channels, out.channels, turned ? 1 : 0, side});
            this.bias = bias;
            this.relu = relu;
        }

        /** Runs with the transformed kernels that the weight's storage keeps, or with new ones. */
        @Override
        public void run() {
            HostAllocator memory = HostAllocator.shared();
            long bytes = planes * kernels.plane();
            Form kept = storage.isReused(key, 1) ? storage.form(key, bytes, kernels) : null;
            Block own = kept == null ? memory.allocate(bytes) : null;
            try {
                if (own != null) {
                    kernels.write(own.address());
                }
                transformed = kept != null ? kept.address() : Objects.requireNonNull(own).address();
                Parallel.forRange(blocks(), 1, this);
            } finally {
                if (kept != null) {
                    kept.close();
                }
                if (own != null) {
                    memory.free(own);
                }
            }
        }

        /** Computes a range of blocks; called by the thread pool. */
        @Override
        public void run(long from, long to) {
            HostAllocator memory = HostAllocator.shared();
            long plane = (long) block * in.rowBytes() + GAP;
            long resultPlane = (long) block * out.rowBytes() + GAP;
            Part part = Part.acquire();
            Block scratch = memory.allocate(planes * (plane + resultPlane) + in.rowBytes() + 2L * out.rowBytes());
            try {
                long v = scratch.address();
                long m = v + planes * plane;
                long none = m + planes * resultPlane;
                long shift = none + in.rowBytes();
                ALL.asSlice(none, in.rowBytes() + out.rowBytes()).fill((byte) 0);
                for (long b = from; b < to; b++) {
                    int n = (int) Math.min(block, tiles - b * block);
                    patches(part, b * block, n, none, v, plane);
                    multiply(part, n, v, plane, m, resultPlane);
                    results(part, b * block, n, m, resultPlane, bias == 0 ? shift : bias, relu,
                            shift + out.rowBytes());
                }
            } finally {
                memory.free(scratch);
                Part.IDLE.give(part);
            }
        }

        private void multiply(Part part, int n, long v, long plane, long m, long resultPlane) {
            int c = in.channels;
            int o = out.channels;
            if (!kernels.arePacked()) {
                part.product.sizes(n, o, c).left(v, c, 1).right(transformed, o, 1).result(m, o)
                        .batch(planes, plane / 4, kernels.plane() / 4, resultPlane / 4).run();
                return;
            }
            try (Gemm gemm = Gemm.acquire()) {
                for (int p = 0; p < planes; p++) {
                    gemm.left(v + p * plane, c, 1).packedRight(transformed + p * kernels.plane())
                            .result(m + p * resultPlane, o).multiply(n, o, c, false);
                }
            }
        }
    }

    long blocks() {
        return Math.ceilDiv(tiles, (long) block);
    }

    long kernelBytes() {
        return 4L * in.channels * out.channels;
    }

    long kernelPlane() {
        return kernelBytes() + GAP;
    }

    /** Returns how many of some channels have their kernels transformed together; they divide the channels. */
    int together(int channels) {
        int count = transforms.lanes();
        while (2 * count <= MAX_TOGETHER && channels % (2 * count) == 0) {
            count *= 2;
        }
        return count;
    }

    /** Transforms patches of {@code n} tiles to rows of planes at {@code v}; {@code none} is a pixel of zeros. */
    void patches(Part part, long first, int n, long none, long v, long plane) {
        Squares squares = part.patches;
        for (int t = 0, count; t < n; t += count) {
            long place = (first + t) % tilesPerImage;
            count = in.squares((first + t) / tilesPerImage, place / tilesW * side - padH, place % tilesW * side - padW,
                    side, (int) Math.min(n - t, tilesW - place % tilesW), none, transforms.patchSide(), squares);
            transforms.patches(squares, count, in.channels, v + (long) t * in.rowBytes(), plane);
        }
    }

    /** Finds the pixels of tile {@code t} and of those behind it, and returns the number of these tiles. */
    private int pixels(long t, int most, long elsewhere, Squares squares) {
        long place = t % tilesPerImage;
        return out.squares(t / tilesPerImage, place / tilesW * side, place % tilesW * side, side,
                (int) Math.min(most, tilesW - place % tilesW), elsewhere, side, squares);
    }

    private void results(Part part, long first, int n, long m, long plane, long bias, boolean relu, long nowhere) {
        Squares squares = part.pixels;
        for (int t = 0, count; t < n; t += count) {
            count = pixels(first + t, n - t, nowhere, squares);
            transforms.pixels(m + (long) t * out.rowBytes(), plane, count, out.channels, bias, relu, squares);
        }
    }

    static Tensor[] weightGradient(WinogradTiles transforms, Convolution.ConvWeightGradient op, Tensor[] in,
            Spec[] outputs) {
        Tensor[] near = {CopyKernels.channelsLast(in[0]), CopyKernels.channelsLast(in[1])};
        Tensor[] results = new Tensor[op.bias() ? 2 : 1];
        Arrays.setAll(results, i -> Storage.allocate(outputs[i]));
        try {
            request(transforms, op, near, results).run();
        } finally {
            release(near, in);
        }
        return results;
    }

    /** Prepares what {@link #weightGradient} does; {@code null} if an operand has to be copied. */
    static @Nullable Runnable prepare(WinogradTiles transforms, Convolution.ConvWeightGradient op, Tensor[] in,
            Tensor[] results) {
        return ChannelsLast.holds(in[0]) && ChannelsLast.holds(in[1]) ? request(transforms, op, in, results) : null;
    }

    private static Runnable request(WinogradTiles transforms, Convolution.ConvWeightGradient op, Tensor[] in,
            Tensor[] results) {
        int[] pad = op.geometry().padding();
        Runnable weight = WinogradCorrelation.of(
                new Winograd(transforms, Images.of(in[0]), Images.of(in[1]), pad[0], pad[1], 1), results[0]);
        if (!op.bias()) {
            return weight;
        }
        Runnable bias = Objects.requireNonNull(ReductionKernels.prepare(
                new Reduction.Sum(Axes.of(in[1].shape(), 0, 2, 3), false), in[1], results[1]));
        return () -> {
            weight.run();
            bias.run();
        };
    }

    /** Transforms gradients of {@code n} tiles to rows of planes at {@code z}. */
    void gradients(Part part, long first, int n, long none, long z, long plane) {
        Squares squares = part.pixels;
        for (int t = 0, count; t < n; t += count) {
            count = pixels(first + t, n - t, none, squares);
            transforms.gradients(squares, count, out.channels, z + (long) t * out.rowBytes(), plane);
        }
    }
}
