package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.gemm.Gemm;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Form;

/**
 * Writes planes {@code [in, out]} of transformed kernels, packed for {@link Gemm} where there is machine code. A thread
 * transforms the kernels of some channels at a time, while they are in its cache.
 */
final class WinogradKernels implements Form.Writer, RangeTask {
    private static final long GRAIN = 1 << 14;

    private final Winograd of;
    private final Tensor weight;
    private final boolean turned;
    /** The input channels, and the output channels, that are transformed together. */
    private final int rows;
    private final int columns;
    private final IdlePool<Copies> copies = new IdlePool<>();
    private long planesAt;

    /** Copies of kernels to rows of {@code [in, 3, 3, out]}: of most output channels, and of the last ones. */
    private record Copies(StridedCopy most, StridedCopy last) { }

    /**
     * Prepares transforms of a weight's present and later elements.
     *
     * @param turned whether the kernels are rotated by 180 degrees, and the weight's channels of output are those of
     *     input here
     */
    WinogradKernels(Winograd of, Tensor weight, boolean turned) {
        this.of = of;
        this.weight = weight;
        this.turned = turned;
        rows = of.together(of.in.channels());
        columns = arePacked() ? Gemm.COLUMNS : of.out.channels();
    }

    /** Returns whether planes consist of {@link Gemm}'s panels. */
    boolean arePacked() {
        return Gemm.isAvailable();
    }

    /** Returns the bytes from plane to plane. */
    long plane() {
        return 4L * of.in.channels() * columns * panels() + Winograd.GAP;
    }

    private int panels() {
        return Math.ceilDiv(of.out.channels(), columns);
    }

    @Override
    public void write(long address) {
        planesAt = address;
        long elements = (long) rows * columns;
        Parallel.forRange(panels() * (long) (of.in.channels() / rows), Math.max(1, GRAIN / elements), this);
    }

    /** Transforms a range of blocks of rows and columns; called by the thread pool. */
    @Override
    public void run(long from, long to) {
        long[] strides = weight.sharedStrides();
        long rowStride = 4 * strides[turned ? 0 : 1];
        long columnStride = 4 * strides[turned ? 1 : 0];
        int blocks = of.in.channels() / rows;
        Copies idle = copies.take();
        Copies copy = idle == null ? copies() : idle;
        Block nine = HostAllocator.shared().allocate(36L * rows * columns);
        try {
            for (long i = from; i < to; i++) {
                long panel = i / blocks;
                long row = i % blocks * rows;
                (panel + 1 < panels() ? copy.most : copy.last).copy(
                        weight.address() + row * rowStride + panel * columns * columnStride,
                        nine.address() + (turned ? 32L * columns : 0));
                of.transforms.kernels(nine.address(), 4L * columns,
                        planesAt + 4 * columns * (panel * of.in.channels() + row), plane(), rows, columns);
            }
        } finally {
            HostAllocator.shared().free(nine);
            copies.give(copy);
        }
    }

    private Copies copies() {
        return new Copies(copy(columns), copy(of.out.channels() - (panels() - 1) * columns));
    }

    private StridedCopy copy(int outputs) {
        Shape block = turned ? Shape.of(rows, outputs, 3, 3) : Shape.of(outputs, rows, 3, 3);
        return new StridedCopy(4, block, weight.sharedStrides(), turned
                ? new long[] {9L * columns, 1, -3L * columns, -columns}
                : new long[] {1, 9L * columns, 3L * columns, columns});
    }
}
