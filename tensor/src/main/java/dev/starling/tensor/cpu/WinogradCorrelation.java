package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.Winograd.Part;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.spi.Block;

/**
 * The gradient of a weight: the sums over all tiles of products of transformed patches and transformed gradients, which
 * are transformed back. Work is divided by sizes alone, so that threads do not change bits.
 */
final class WinogradCorrelation {
    private WinogradCorrelation() { }

    /** Returns a request to write the gradient of a weight; {@code of} reads its images, and their gradients. */
    static Runnable of(Winograd of, Tensor weight) {
        boolean small = of.tiles * (of.in.rowBytes() + of.out.rowBytes()) <= of.kernelBytes();
        return small ? new ByChannels(of, weight) : new ByTiles(of, weight);
    }

    /**
     * Where sums are larger than the transformed images: transforms these once, then a thread computes the sums of some
     * output channels at a time, and transforms them back while they are in its cache.
     */
    private static final class ByChannels implements Runnable {
        private static final int CHUNK = 16;

        private final Winograd of;
        private final Tensor weight;
        private final int columns;
        private final long plane;
        private final long gradientPlane;
        private final IdlePool<StridedCopy> copies = new IdlePool<>();
        private final RangeTask transform = this::transform;
        private final RangeTask sums = this::sums;
        /** Addresses during a run: the transformed patches and gradients, and zeros. */
        private long v;
        private long z;
        private long none;

        ByChannels(Winograd of, Tensor weight) {
            this.of = of;
            this.weight = weight;
            columns = of.together(of.out.channels());
            plane = of.tiles * of.in.rowBytes() + Winograd.GAP;
            gradientPlane = of.tiles * of.out.rowBytes() + Winograd.GAP;
        }

        @Override
        public void run() {
            int zeros = of.in.rowBytes() + of.out.rowBytes();
            Block images = HostAllocator.shared().allocate(of.planes * (plane + gradientPlane) + zeros);
            try {
                v = images.address();
                z = v + of.planes * plane;
                none = z + of.planes * gradientPlane;
                ALL.asSlice(none, zeros).fill((byte) 0);
                Parallel.forRange(Math.ceilDiv(of.tiles, (long) CHUNK), 1, transform);
                Parallel.forRange(of.out.channels() / columns, 1, sums);
            } finally {
                HostAllocator.shared().free(images);
            }
        }

        private void transform(long from, long to) {
            Part part = Part.acquire();
            long first = from * CHUNK;
            int n = (int) (Math.min(of.tiles, to * CHUNK) - first);
            of.patches(part, first, n, none, v + first * of.in.rowBytes(), plane);
            of.gradients(part, first, n, none, z + first * of.out.rowBytes(), gradientPlane);
            Part.IDLE.give(part);
        }

        private void sums(long from, long to) {
            int inputs = of.in.channels();
            int outputs = of.out.channels();
            int elements = inputs * columns;
            long sumPlane = 4L * elements + Winograd.GAP;
            StridedCopy idle = copies.take();
            StridedCopy copy = idle == null ? copy(sumPlane / 4) : idle;
            Part part = Part.acquire();
            Block scratch = HostAllocator.shared().allocate((of.planes + 9) * sumPlane);
            try {
                long sum = scratch.address();
                long nine = sum + of.planes * sumPlane;
                for (long first = from * columns; first < to * columns; first += columns) {
                    part.product.sizes(inputs, columns, of.tiles).left(v, 1, inputs)
                            .right(z + 4 * first, outputs, 1).result(sum, columns)
                            .batch(of.planes, plane / 4, gradientPlane / 4, sumPlane / 4).run();
                    of.transforms.kernelGradients(sum, sumPlane, nine, sumPlane, elements);
                    copy.copy(nine, weight.address() + 4 * first * weight.stride(0));
                }
            } finally {
                HostAllocator.shared().free(scratch);
                Part.IDLE.give(part);
                copies.give(copy);
            }
        }

        /** Returns a copy of the gradients of some kernels from nine planes, in elements, to the weight's gradient. */
        private StridedCopy copy(long nine) {
            return new StridedCopy(4, Shape.of(columns, of.in.channels(), 3, 3),
                    new long[] {1, columns, 3 * nine, nine}, weight.sharedStrides());
        }
    }

    /** Assigns blocks of tiles to groups, each with its own sums. */
    private static final class ByTiles implements Runnable {
        private static final long MAX_PARTIAL_BYTES = 64L << 20;
        private static final int MAX_GROUPS = 8;
        private static final int GRAIN = 1 << 14;

        private final Winograd of;
        private final long weight;
        private final StridedCopy copy;
        private final int groups;
        private final long share;
        private final RangeTask accumulation = this::accumulateGroups;
        private final RangeTask addition = this::addGroup;
        private final RangeTask transform = this::transformBack;
        /** Addresses during a run: the sums of all groups, those of the one that is added, and nine kernels' planes. */
        private long sums;
        private long other;
        private long nine;

        ByTiles(Winograd of, Tensor weight) {
            this.of = of;
            this.weight = weight.address();
            long plane = of.kernelBytes() / 4;
            copy = new StridedCopy(4, weight.shape(), new long[] {1, of.out.channels(), 3 * plane, plane},
                    weight.sharedStrides());
            int most = Math.clamp(Math.min(of.blocks() / 2, MAX_PARTIAL_BYTES / groupBytes()), 1, MAX_GROUPS);
            share = Math.ceilDiv(of.blocks(), (long) most);
            groups = Math.toIntExact(Math.ceilDiv(of.blocks(), share));
        }

        @Override
        public void run() {
            HostAllocator memory = HostAllocator.shared();
            Block partial = memory.allocate(groups * groupBytes());
            try {
                sums = partial.address();
                Parallel.forRange(groups, 1, accumulation);
                for (int group = 1; group < groups; group++) {
                    other = sums + group * groupBytes();
                    Parallel.forRange(of.planes, 1, addition);
                }
                Block scratch = memory.allocate(9 * of.kernelBytes());
                try {
                    nine = scratch.address();
                    Parallel.forRange(of.kernelBytes() / 4, GRAIN, transform);
                    copy.copy(nine, weight);
                } finally {
                    memory.free(scratch);
                }
            } finally {
                memory.free(partial);
            }
        }

        private long groupBytes() {
            return of.planes * of.kernelPlane();
        }

        private void accumulateGroups(long from, long to) {
            for (long group = from; group < to; group++) {
                accumulate(group * share, Math.min(of.blocks(), (group + 1) * share), sums + group * groupBytes());
            }
        }

        private void addGroup(long from, long to) {
            for (long p = from; p < to; p++) {
                RowLoops.FASTEST.matrix().columnSums(other + p * of.kernelPlane(), of.kernelPlane(), 1,
                        of.in.channels() * of.out.channels(), sums + p * of.kernelPlane());
            }
        }

        private void transformBack(long from, long to) {
            of.transforms.kernelGradients(sums + 4 * from, of.kernelPlane(), nine + 4 * from, of.kernelBytes(),
                    (int) (to - from));
        }

        private void accumulate(long from, long to, long sum) {
            HostAllocator memory = HostAllocator.shared();
            int c = of.in.channels();
            int o = of.out.channels();
            long plane = (long) of.block * of.in.rowBytes() + Winograd.GAP;
            long gradientPlane = (long) of.block * of.out.rowBytes() + Winograd.GAP;
            Part part = Part.acquire();
            Block scratch =
                    memory.allocate(of.planes * (plane + gradientPlane) + of.in.rowBytes() + of.out.rowBytes());
            try {
                long v = scratch.address();
                long z = v + of.planes * plane;
                long none = z + of.planes * gradientPlane;
                ALL.asSlice(none, of.in.rowBytes() + of.out.rowBytes()).fill((byte) 0);
                for (long b = from; b < to; b++) {
                    int n = (int) Math.min(of.block, of.tiles - b * of.block);
                    of.patches(part, b * of.block, n, none, v, plane);
                    of.gradients(part, b * of.block, n, none, z, gradientPlane);
                    part.product.sizes(c, o, n).left(v, 1, c).right(z, o, 1).result(sum, o)
                            .accumulate(b > from)
                            .batch(of.planes, plane / 4, gradientPlane / 4, of.kernelPlane() / 4).run();
                }
            } finally {
                memory.free(scratch);
                Part.IDLE.give(part);
            }
        }
    }
}
