package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.RowLoop;
import dev.starling.tensor.cpu.jit.RowLoop.Builder;
import java.util.List;

/**
 * The transforms in machine code, for F(2×2, 3×3) with the points 0, ±1 and F(4×4, 3×3) with 0, ±2/3, ±3/2, which round
 * less than ±1, ±2. Each is a matrix for one dimension, which is applied to the columns of a square and then to its
 * rows.
 */
final class MachineWinogradTiles implements WinogradTiles {
    static final List<WinogradTiles> LOOPS = List.of(new MachineWinogradTiles(4), new MachineWinogradTiles(2));

    /** The product of a matrix and a vector of values. */
    private interface Product {
        int[] of(Builder b, int[] x);
    }

    /** The positive points of F(4×4, 3×3), whose product is 1, and their squares. */
    private static final double A = 2.0 / 3;
    private static final double B = 1.5;
    private static final double A2 = A * A;
    private static final double B2 = B * B;
    /** Factors of the kernel's rows of these points. */
    private static final double KERNEL_A = 1 / (2 * A2 * (A2 - B2));
    private static final double KERNEL_B = 1 / (2 * B2 * (B2 - A2));

    private final int side;
    private final RowLoop patches;
    private final RowLoop pixels;
    private final RowLoop rectified;
    private final RowLoop gradients;
    private final RowLoop kernels;
    private final RowLoop kernelGradients;

    MachineWinogradTiles(int side) {
        boolean two = side == 2;
        this.side = side;
        patches = RowLoop.of(b -> transform(b, side + 2, two ? MachineWinogradTiles::patch2
                : MachineWinogradTiles::patch4));
        pixels = pixels(false);
        rectified = pixels(true);
        gradients = RowLoop.of(b -> transform(b, side, two ? MachineWinogradTiles::gradient2
                : MachineWinogradTiles::gradient4));
        kernels = RowLoop.of(b -> transform(b, 3, two ? MachineWinogradTiles::kernel2
                : MachineWinogradTiles::kernel4));
        kernelGradients = RowLoop.of(b -> transform(b, side + 2, two ? MachineWinogradTiles::kernelGradient2
                : MachineWinogradTiles::kernelGradient4));
    }

    private RowLoop pixels(boolean rectifies) {
        Product product = side == 2 ? MachineWinogradTiles::pixel2 : MachineWinogradTiles::pixel4;
        return RowLoop.of(b -> {
            int[][] rows = columns(b, side + 2, product);
            int bias = b.column();
            int zero = b.constant(0);
            for (int[] row : rows) {
                for (int y : product.of(b, row)) {
                    int value = b.add(y, bias);
                    b.store(rectifies ? b.ifLess(value, zero, zero, value) : value);
                }
            }
        });
    }

    /** Adds a square of operands, column by column, and returns the rows of the products with its columns. */
    private static int[][] columns(Builder b, int side, Product product) {
        int[][] rows = new int[0][];
        for (int j = 0; j < side; j++) {
            int[] column = new int[side];
            for (int i = 0; i < side; i++) {
                column[i] = b.column();
            }
            int[] result = product.of(b, column);
            rows = j == 0 ? new int[result.length][side] : rows;
            for (int i = 0; i < result.length; i++) {
                rows[i][j] = result[i];
            }
        }
        return rows;
    }

    private static void transform(Builder b, int side, Product product) {
        for (int[] row : columns(b, side, product)) {
            for (int value : product.of(b, row)) {
                b.store(value);
            }
        }
    }

    private static int times(Builder b, int x, double factor) {
        return b.mul(x, b.constant(factor));
    }

    private static int times(Builder b, int x, double factor, int plus) {
        return b.fma(x, b.constant(factor), plus);
    }

    private static int[] patch2(Builder b, int[] d) {
        return new int[] {b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])};
    }

    private static int[] patch4(Builder b, int[] d) {
        int even = times(b, d[2], -B2, d[4]);
        int odd = times(b, d[1], -B2, d[3]);
        int e = times(b, d[2], -A2, d[4]);
        int o = times(b, d[1], -A2, d[3]);
        return new int[] {b.add(d[0], times(b, d[2], -(A2 + B2), d[4])), times(b, odd, A, even),
            times(b, odd, -A, even), times(b, o, B, e), times(b, o, -B, e),
            b.add(d[1], times(b, d[3], -(A2 + B2), d[5]))};
    }

    private static int[] pixel2(Builder b, int[] m) {
        return new int[] {b.add(b.add(m[0], m[1]), m[2]), b.sub(b.sub(m[1], m[2]), m[3])};
    }

    private static int[] pixel4(Builder b, int[] m) {
        int p = b.add(m[1], m[2]);
        int q = b.sub(m[1], m[2]);
        int r = b.add(m[3], m[4]);
        int s = b.sub(m[3], m[4]);
        return new int[] {b.add(b.add(m[0], p), r), times(b, s, B, times(b, q, A)), times(b, r, B2, times(b, p, A2)),
            times(b, s, B * B2, times(b, q, A * A2, m[5]))};
    }

    private static int[] gradient2(Builder b, int[] g) {
        return new int[] {g[0], b.add(g[0], g[1]), b.sub(g[0], g[1]), b.neg(g[1])};
    }

    private static int[] gradient4(Builder b, int[] g) {
        int even = times(b, g[2], A2, g[0]);
        int odd = times(b, g[3], A2, g[1]);
        int e = times(b, g[2], B2, g[0]);
        int o = times(b, g[3], B2, g[1]);
        return new int[] {g[0], times(b, odd, A, even), times(b, odd, -A, even), times(b, o, B, e),
            times(b, o, -B, e), g[3]};
    }

    private static int[] kernel2(Builder b, int[] g) {
        int half = b.constant(0.5);
        int outer = b.add(g[0], g[2]);
        return new int[] {g[0], b.mul(b.add(outer, g[1]), half), b.mul(b.sub(outer, g[1]), half), g[2]};
    }

    private static int[] kernel4(Builder b, int[] g) {
        int even = times(b, g[2], KERNEL_A * A2, times(b, g[0], KERNEL_A));
        int e = times(b, g[2], KERNEL_B * B2, times(b, g[0], KERNEL_B));
        return new int[] {g[0], times(b, g[1], KERNEL_A * A, even), times(b, g[1], -KERNEL_A * A, even),
            times(b, g[1], KERNEL_B * B, e), times(b, g[1], -KERNEL_B * B, e), g[2]};
    }

    private static int[] kernelGradient2(Builder b, int[] u) {
        int half = b.constant(0.5);
        int p = b.mul(b.add(u[1], u[2]), half);
        return new int[] {b.add(u[0], p), b.mul(b.sub(u[1], u[2]), half), b.add(p, u[3])};
    }

    private static int[] kernelGradient4(Builder b, int[] u) {
        int p = b.add(u[1], u[2]);
        int q = b.sub(u[1], u[2]);
        int r = b.add(u[3], u[4]);
        int s = b.sub(u[3], u[4]);
        return new int[] {times(b, r, KERNEL_B, times(b, p, KERNEL_A, u[0])),
            times(b, s, KERNEL_B * B, times(b, q, KERNEL_A * A)),
            times(b, r, KERNEL_B * B2, times(b, p, KERNEL_A * A2, u[5]))};
    }

    @Override
    public int side() {
        return side;
    }

    @Override
    public int lanes() {
        return 1;
    }

    /** Sets a square of operands, column by column. */
    private static RowLoop.Call columns(RowLoop.Call call, int side, long first, long plane, long step) {
        for (int j = 0; j < side; j++) {
            call.operands(side, first + j * plane, side * plane, step);
        }
        return call;
    }

    @Override
    public void patches(Squares from, int count, int channels, long v, long plane) {
        patches.call().operands(planes(), from.at, from.step).operands(planes(), v, plane, 4L * channels)
                .run(count, channels);
    }

    @Override
    public void pixels(long m, long plane, int count, int channels, long bias, boolean relu, Squares to) {
        RowLoop.Call call = (relu ? rectified : pixels).call();
        columns(call, patchSide(), m, plane, 4L * channels).operand(bias, 0);
        for (int i = 0; i < side; i++) {
            for (int j = 0; j < side; j++) {
                call.operand(to.at[j * side + i], to.step[j * side + i]);
            }
        }
        call.run(count, channels);
    }

    @Override
    public void gradients(Squares from, int count, int channels, long z, long plane) {
        gradients.call().operands(side * side, from.at, from.step).operands(planes(), z, plane, 4L * channels)
                .run(count, channels);
    }

    @Override
    public void kernels(long g, long from, long u, long to, int rows, int columns) {
        columns(kernels.call(), 3, g, from, 9 * from).operands(planes(), u, to, 4L * columns).run(rows, columns);
    }

    @Override
    public void kernelGradients(long u, long from, long g, long to, int count) {
        columns(kernelGradients.call(), patchSide(), u, from, 0).operands(9, g, to, 0).run(1, count);
    }
}
