package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.Tensor;

/**
 * Copies between tensors of one type whose innermost dimensions differ, by tiles. Other copies walk along the result,
 * which here would read one element of each memory sector.
 */
final class Transposition {
    private static final int TILE = 64;
    /** For smaller sizes most of a tile would be empty. */
    private static final int MIN_SIZE = 32;
    private static final int THREADS = 256;

    private record TransposeKernel(String type) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("transpose", "transpose", "T", type);
        }
    }

    private Transposition() { }

    /** Copies {@code x}, which has the shape of {@code y}, if tiles are the better way; returns whether it did. */
    static boolean run(Launcher launcher, Tensor y, Tensor x) {
        if (x.dtype() != y.dtype() || !x.shape().equals(y.shape()) || y.count() < MIN_SIZE * MIN_SIZE
                || y.count() > Layout.MAX_COUNT) {
            return false;
        }
        Layout layout = Layout.of(y.shape(), y, x);
        int down = layout.rank() - 1;
        int across = neighbours(layout);
        if (across < 0 || across == down || layout.stride(0, down) != 1 || layout.size(across) < MIN_SIZE
                || layout.size(down) < MIN_SIZE) {
            return false;
        }
        long[] sizes = new long[down - 1];
        long[][] strides = new long[2][down - 1];
        for (int d = 0, to = 0; d < down; d++) {
            if (d != across) {
                sizes[to] = layout.size(d);
                strides[0][to] = layout.stride(0, d);
                strides[1][to++] = layout.stride(1, d);
            }
        }
        long tiles = tiles(layout.size(across)) * tiles(layout.size(down));
        Launch launch = launcher.launch(new TransposeKernel(word(y.dtype().bytes()))).tensor(y).tensor(x)
                .i32((int) layout.size(across)).i32((int) layout.size(down)).i64(layout.stride(0, across))
                .i64(layout.stride(1, down));
        Layout others = Layout.rowMajor(sizes, strides);
        launch.layout(others, 2).blocks(tiles * others.count(), THREADS);
        return true;
    }

    /** Returns the dimension along which {@code x} is contiguous, or -1. */
    private static int neighbours(Layout layout) {
        for (int d = layout.rank() - 1; d >= 0; d--) {
            if (layout.stride(1, d) == 1) {
                return d;
            }
        }
        return -1;
    }

    private static long tiles(long size) {
        return Math.ceilDiv(size, (long) TILE);
    }

    private static String word(int bytes) {
        return switch (bytes) {
            case 1 -> "u8";
            case 2 -> "u16";
            case 4 -> "u32";
            default -> "u64";
        };
    }
}
