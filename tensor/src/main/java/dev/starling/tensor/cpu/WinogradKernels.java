package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.spi.Block;
import dev.starling.tensor.spi.Form;

/**
 * Writes planes {@code [in, out]} of transformed kernels. A thread transforms the kernels of some input channels at a
 * time, while they are in its cache.
 */
final class WinogradKernels implements Form.Writer, RangeTask {
    private static final long GRAIN = 1 << 14;

    private final Winograd of;
    private final Tensor weight;
    private final boolean turned;
    private final int rows;
    private final IdlePool<StridedCopy> copies = new IdlePool<>();
    private long planesAt;

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
    }

    @Override
    public void write(long address) {
        planesAt = address;
        long elements = (long) rows * of.out.channels();
        Parallel.forRange(of.in.channels() / rows, Math.max(1, GRAIN / elements), this);
    }

    /** Transforms a range of blocks of rows; called by the thread pool. */
    @Override
    public void run(long from, long to) {
        long rowBytes = (long) rows * of.out.rowBytes();
        long plane = rowBytes + Winograd.GAP;
        StridedCopy idle = copies.take();
        StridedCopy copy = idle == null ? copy(plane / 4) : idle;
        Block nine = HostAllocator.shared().allocate(9 * plane);
        try {
            long step = 4 * rows * weight.strides()[turned ? 0 : 1];
            for (long i = from; i < to; i++) {
                copy.copy(weight.address() + i * step, nine.address() + (turned ? 8 * plane : 0));
                of.transforms.kernels(nine.address(), plane, planesAt + i * rowBytes, of.kernelPlane(),
                        (int) (rowBytes / 4));
            }
        } finally {
            HostAllocator.shared().free(nine);
            copies.give(copy);
        }
    }

    /** Returns a copy of some kernels to nine planes of the convolution's {@code [in, out]}, in elements. */
    private StridedCopy copy(long plane) {
        Shape block = turned ? Shape.of(rows, of.out.channels(), 3, 3) : Shape.of(of.out.channels(), rows, 3, 3);
        return new StridedCopy(4, block, weight.strides(), turned
                ? new long[] {of.out.channels(), 1, -3 * plane, -plane}
                : new long[] {1, of.out.channels(), 3 * plane, plane});
    }
}
