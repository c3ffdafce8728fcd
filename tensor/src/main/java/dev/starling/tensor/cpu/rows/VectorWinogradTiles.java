package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import java.util.List;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/** The transforms of F(2×2, 3×3) with the Vector API, along channels. */
final class VectorWinogradTiles implements WinogradTiles {
    static final List<WinogradTiles> LOOPS = List.of(new VectorWinogradTiles());
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();
    private static final int STEP = 4 * S.length();
    /** 16 vectors of intermediate results, because the compiler does not inline more vector code into one loop. */
    private static final ThreadLocal<MemorySegment> SCRATCH =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(16L * STEP, 64));

    @Override
    public int side() {
        return 2;
    }

    @Override
    public int lanes() {
        return S.length();
    }

    private static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER);
    }

    private static void store(FloatVector v, long address) {
        v.intoMemorySegment(ALL, address, ORDER);
    }

    @Override
    public void patches(Squares from, int count, int channels, long v, long plane) {
        long scratch = SCRATCH.get().address();
        long[] at = from.at.clone();
        for (int t = 0; t < count; t++) {
            patch(at, 4 * channels, scratch, v + 4L * t * channels, plane);
            advance(at, from.step);
        }
    }

    private static void advance(long[] at, long[] step) {
        for (int i = 0; i < at.length; i++) {
            at[i] += step[i];
        }
    }

    @Override
    public void pixels(long m, long plane, int count, int channels, long bias, boolean relu, Squares to) {
        long scratch = SCRATCH.get().address();
        long[] at = to.at.clone();
        for (int t = 0; t < count; t++) {
            pixels(m + 4L * t * channels, plane, 4 * channels, scratch, bias, relu, at);
            advance(at, to.step);
        }
    }

    @Override
    public void gradients(Squares from, int count, int channels, long z, long plane) {
        long[] at = from.at.clone();
        for (int t = 0; t < count; t++) {
            gradient(at, 4 * channels, z + 4L * t * channels, plane);
            advance(at, from.step);
        }
    }

    @Override
    public void kernels(long g, long from, long u, long to, int rows, int columns) {
        long scratch = SCRATCH.get().address();
        for (int row = 0; row < rows; row++) {
            kernels(g + 9 * row * from, from, scratch, u + 4L * row * columns, to, 4L * columns);
        }
    }

    @Override
    public void kernelGradients(long u, long from, long g, long to, int count) {
        kernelGradients(u, from, SCRATCH.get().address(), g, to, 4L * count);
    }

    private static void patch(long[] at, int bytes, long scratch, long v, long plane) {
        for (int c = 0; c < bytes; c += STEP) {
            for (int j = 0; j < 4; j++) {
                FloatVector d0 = load(at[4 * j] + c);
                FloatVector d1 = load(at[4 * j + 1] + c);
                FloatVector d2 = load(at[4 * j + 2] + c);
                FloatVector d3 = load(at[4 * j + 3] + c);
                row(d0, d1, d2, d3, scratch + j * STEP, 4 * STEP);
            }
            for (int i = 0; i < 4; i++) {
                long t = scratch + 4 * i * STEP;
                row(load(t), load(t + STEP), load(t + 2 * STEP), load(t + 3 * STEP), v + c + 4 * i * plane, plane);
            }
        }
    }

    private static void row(FloatVector t0, FloatVector t1, FloatVector t2, FloatVector t3, long v, long plane) {
        store(t0.sub(t2), v);
        store(t1.add(t2), v + plane);
        store(t2.sub(t1), v + 2 * plane);
        store(t1.sub(t3), v + 3 * plane);
    }

    private static void pixels(long m, long plane, int bytes, long scratch, long bias, boolean relu, long[] at) {
        FloatVector floor = FloatVector.broadcast(S, relu ? 0 : Float.NEGATIVE_INFINITY);
        for (int c = 0; c < bytes; c += STEP) {
            for (int j = 0; j < 4; j++) {
                long from = m + c + j * plane;
                FloatVector m1 = load(from + 4 * plane);
                FloatVector m2 = load(from + 8 * plane);
                store(load(from).add(m1).add(m2), scratch + j * STEP);
                store(m1.sub(m2).sub(load(from + 12 * plane)), scratch + (4 + j) * STEP);
            }
            FloatVector shift = load(bias + c);
            for (int i = 0; i < 2; i++) {
                long from = scratch + 4 * i * STEP;
                FloatVector s1 = load(from + STEP);
                FloatVector s2 = load(from + 2 * STEP);
                store(load(from).add(s1).add(s2).add(shift).max(floor), at[i] + c);
                store(s1.sub(s2).sub(load(from + 3 * STEP)).add(shift).max(floor), at[2 + i] + c);
            }
        }
    }

    private static void gradient(long[] at, int bytes, long z, long plane) {
        for (int c = 0; c < bytes; c += STEP) {
            FloatVector g00 = load(at[0] + c);
            FloatVector g01 = load(at[2] + c);
            FloatVector g10 = load(at[1] + c);
            FloatVector g11 = load(at[3] + c);
            spread(g00, g01, z + c, plane);
            spread(g00.add(g10), g01.add(g11), z + c + 4 * plane, plane);
            spread(g00.sub(g10), g01.sub(g11), z + c + 8 * plane, plane);
            spread(g10.neg(), g11.neg(), z + c + 12 * plane, plane);
        }
    }

    private static void spread(FloatVector a, FloatVector b, long z, long plane) {
        store(a, z);
        store(a.add(b), z + plane);
        store(a.sub(b), z + 2 * plane);
        store(b.neg(), z + 3 * plane);
    }

    private static void kernels(long g, long from, long scratch, long u, long to, long end) {
        for (long i = 0; i < end; i += STEP) {
            for (int j = 0; j < 3; j++) {
                long at = g + i + j * from;
                widen(load(at), load(at + 3 * from), load(at + 6 * from), scratch + j * STEP, 4 * STEP);
            }
            for (int k = 0; k < 4; k++) {
                long at = scratch + 4 * k * STEP;
                widen(load(at), load(at + STEP), load(at + 2 * STEP), u + i + 4 * k * to, to);
            }
        }
    }

    private static void widen(FloatVector a, FloatVector b, FloatVector c, long u, long to) {
        FloatVector outer = a.add(c);
        store(a, u);
        store(outer.add(b).mul(0.5f), u + to);
        store(outer.sub(b).mul(0.5f), u + 2 * to);
        store(c, u + 3 * to);
    }

    private static void kernelGradients(long u, long from, long scratch, long g, long to, long end) {
        for (long i = 0; i < end; i += STEP) {
            for (int j = 0; j < 4; j++) {
                long at = u + i + j * from;
                narrow(load(at), load(at + 4 * from), load(at + 8 * from), load(at + 12 * from), scratch + j * STEP,
                        4 * STEP);
            }
            for (int k = 0; k < 3; k++) {
                long at = scratch + 4 * k * STEP;
                narrow(load(at), load(at + STEP), load(at + 2 * STEP), load(at + 3 * STEP), g + i + 3 * k * to, to);
            }
        }
    }

    private static void narrow(FloatVector a, FloatVector b, FloatVector c, FloatVector d, long g, long to) {
        FloatVector p = b.add(c).mul(0.5f);
        store(a.add(p), g);
        store(b.sub(c).mul(0.5f), g + to);
        store(p.add(d), g + 2 * to);
    }
}
