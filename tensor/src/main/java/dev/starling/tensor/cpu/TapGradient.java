package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.ChannelsLast;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The gradient of a weight with few taps, such as that of a network's first layer, whose images have one or three
 * channels. Each image is copied into a frame of zeros, its padding, and {@link TapCode} sums up its pixels. Images
 * belong to groups, each with its own sums, by their number alone, so that threads do not change bits.
 */
final class TapGradient implements Runnable {
    private static final int MIN_TAPS = 8;
    private static final int MIN_IMAGES = 8;
    private static final int MAX_GROUPS = 32;
    /** Output channels for which the sums of a few groups stay in the second-level cache. */
    private static final int MAX_OUTPUTS = 256;
    /** Fewer pixels are not worth the loading and storing of all sums for each image. */
    private static final int MIN_PIXELS = 4;
    /**
     * Pixels for which the code is called at most, but at least for a row: longer sums round more, and the JVM's
     * collectors wait meanwhile.
     */
    private static final int MAX_PIXELS = 1 << 11;
    private static final long MAX_FRAME_BYTES = 1 << 20;
    /** The columns of a frame are a multiple of this, so that images of many sizes need few pieces of code. */
    private static final int COLUMNS = 16;

    private final long x;
    private final long g;
    private final long weight;
    /** The address of the bias's gradient, or 0. */
    private final long bias;
    private final long imageBytes;
    private final List<MachineCode> code;
    private final Frame frame;
    private final TapCode.Taps taps;
    private final int images;
    private final int outputs;
    private final int rows;
    private final int columns;
    private final long rowStep;
    private final long columnStep;
    private final int groups;
    private final int share;
    private final StridedCopy copy;
    private final RangeTask accumulation = this::accumulate;
    /** The address of the sums of all groups during a run. */
    private long sums;

    /**
     * An image with its padding, with the distances of its elements in bytes, and the part of an image that it receives
     * as runs of contiguous bytes: {@code planes * height} of them.
     */
    private record Frame(long bytes, int channelStep, int rowStep, int columnStep, int planes, int height, long run,
            long target, long sourcePlane, long sourceRow) {
        /** Copies the part of the image at an address that lies within the frame. */
        void fill(long image, long to) {
            for (int p = 0; p < planes; p++) {
                for (int i = 0; i < height; i++) {
                    MemorySegment.copy(ALL, image + p * sourcePlane + i * sourceRow, ALL,
                            to + target + (long) p * channelStep + (long) i * rowStep, run);
                }
            }
        }
    }

    private TapGradient(Tensor x, Tensor g, Tensor[] results, Geometry geometry, Frame frame, TapCode.Taps taps,
            List<MachineCode> code) {
        this.x = x.address();
        this.g = g.address();
        imageBytes = 4 * x.size(1) * x.size(2) * x.size(3);
        this.frame = frame;
        this.taps = taps;
        this.code = code;
        weight = results[0].address();
        bias = results.length > 1 ? results[1].address() : 0;
        images = Math.toIntExact(g.size(0));
        outputs = Math.toIntExact(g.size(1));
        rows = Math.toIntExact(g.size(2));
        columns = Math.toIntExact(g.size(3));
        rowStep = (long) geometry.stride()[0] * frame.rowStep;
        columnStep = (long) geometry.stride()[1] * frame.columnStep;
        share = Math.ceilDiv(images, MAX_GROUPS);
        groups = Math.ceilDiv(images, share);
        Shape shape = results[0].shape();
        copy = new StridedCopy(4, shape, new long[] {1, shape.dim(2) * shape.dim(3) * outputs, shape.dim(3) * outputs,
            outputs}, results[0].sharedStrides());
    }

    /** Returns whether this algorithm is to be used, if the operands are images that lie dense. */
    static boolean suits(Convolution.ConvWeightGradient op, DType dtype, Shape x, Shape weight, Shape y) {
        Geometry geometry = op.geometry();
        if (MachineCode.VECTOR_BITS == 0 || dtype != DType.F32 || geometry.rank() != 2 || geometry.groups() != 1
                || y.dim(1) % TapCode.LANES != 0 || y.dim(1) > MAX_OUTPUTS
                || y.dim(0) < MIN_IMAGES || y.dim(0) > Integer.MAX_VALUE || y.dim(2) * y.dim(3) < MIN_PIXELS) {
            return false;
        }
        double count = 1.0 * weight.dim(1) * weight.dim(2) * weight.dim(3);
        double frame = 4.0 * x.dim(1) * extent(geometry, 0, weight, y) * extent(geometry, 1, weight, y);
        return count >= MIN_TAPS && count + (op.bias() ? 1 : 0) <= TapCode.MAX_SUMS && frame <= MAX_FRAME_BYTES;
    }

    /** Returns how many rows or columns, with padding, all places of the kernel cover together. */
    private static long extent(Geometry geometry, int axis, Shape weight, Shape y) {
        return (y.dim(2 + axis) - 1) * geometry.stride()[axis]
                + (weight.dim(2 + axis) - 1) * geometry.dilation()[axis] + 1;
    }

    /** Returns the request, or {@code null} if an operand has to be copied or there is no more memory for code. */
    static @Nullable Runnable of(Convolution.ConvWeightGradient op, Tensor x, Tensor g, Tensor[] results) {
        if (!ChannelsLast.holds(g) || !x.isContiguous() && !ChannelsLast.holds(x)) {
            return null;
        }
        Shape weight = results[0].shape();
        Geometry geometry = op.geometry();
        Frame frame = frame(geometry, x, weight, g.shape());
        TapCode.Taps taps = new TapCode.Taps((int) weight.dim(1), (int) weight.dim(2), (int) weight.dim(3),
                frame.channelStep, frame.rowStep * geometry.dilation()[0], frame.columnStep * geometry.dilation()[1],
                op.bias());
        List<MachineCode> code = TapCode.of(taps);
        return code.isEmpty() ? null : new TapGradient(x, g, results, geometry, frame, taps, code);
    }

    private static Frame frame(Geometry geometry, Tensor x, Shape weight, Shape y) {
        boolean planar = x.isContiguous();
        int channels = (int) x.size(1);
        int height = (int) extent(geometry, 0, weight, y);
        int width = (int) extent(geometry, 1, weight, y);
        int padH = geometry.padding()[0];
        int padW = geometry.padding()[1];
        // Rows of all channels follow each other, so that the code does not depend on the height.
        int coveredH = (int) Math.clamp(height - padH, 0, x.size(2));
        int coveredW = (int) Math.clamp(width - padW, 0, x.size(3));
        int pixel = planar ? 4 : 4 * channels;
        int run = Math.ceilDiv(width, COLUMNS) * COLUMNS * pixel;
        int row = planar ? channels * run : run;
        return new Frame((long) height * row, planar ? run : 4, row, pixel, planar ? channels : 1, coveredH,
                (long) coveredW * pixel, (long) padH * row + (long) padW * pixel,
                planar ? 4 * x.size(2) * x.size(3) : 0, x.size(3) * pixel);
    }

    @Override
    public void run() {
        HostAllocator memory = HostAllocator.shared();
        long row = 4L * outputs;
        long group = taps.sums() * row;
        Block block = memory.allocate(groups * group);
        try {
            sums = block.address();
            ALL.asSlice(sums, groups * group).fill((byte) 0);
            Parallel.forRange(groups, 1, accumulation);
            RowLoops.FASTEST.matrix().columnSums(sums + group, group, groups - 1, (int) (group / 4), sums);
            copy.copy(sums, weight);
            if (bias != 0) {
                MemorySegment.copy(ALL, sums + group - row, ALL, bias, row);
            }
        } finally {
            memory.free(block);
        }
    }

    private void accumulate(long from, long to) {
        HostAllocator memory = HostAllocator.shared();
        Block block = memory.allocate(frame.bytes);
        try {
            long image = block.address();
            long[] words = new long[TapCode.WORDS];
            ALL.asSlice(image, frame.bytes).fill((byte) 0);
            words[TapCode.COLUMNS] = columns;
            words[TapCode.X_ROW] = rowStep;
            words[TapCode.X_COLUMN] = columnStep;
            words[TapCode.G_COLUMN] = 4L * outputs;
            words[TapCode.SUMS_ROW] = 4L * outputs;
            for (long n = from * share; n < Math.min(images, to * share); n++) {
                frame.fill(x + n * imageBytes, image);
                add(words, image, n, sums + n / share * taps.sums() * 4L * outputs);
            }
        } finally {
            memory.free(block);
        }
    }

    /** Adds what an image contributes to the sums of its group. */
    private void add(long[] words, long image, long n, long group) {
        int together = Math.clamp(MAX_PIXELS / columns, 1, rows);
        MemorySegment frame = MemorySegment.ofArray(words);
        for (int row = 0; row < rows; row += together) {
            words[TapCode.X] = image + row * rowStep;
            words[TapCode.ROWS] = Math.min(together, rows - row);
            for (int channel = 0; channel < outputs; channel += TapCode.LANES) {
                words[TapCode.G] = g + 4 * (((n * rows + row) * columns) * outputs + channel);
                words[TapCode.SUMS] = group + 4L * channel;
                for (MachineCode part : code) {
                    part.call(frame, 0, 0, 0, 0);
                }
            }
        }
    }
}
