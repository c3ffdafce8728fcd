package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The transforms of Winograd's F(2×2, 3×3) on tiles of channels-last images, with the Vector API along channels:
 * {@code Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A}. A transformed block of tiles is 16 planes, {@code plane} bytes apart, of
 * {@code tiles × channels}. (Lavin and Gray, Fast algorithms for convolutional neural networks, 2015, section 4.1)
 */
public final class WinogradTiles {
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();
    /** Number of f32 channels in a vector; channel counts must be multiples of it. */
    public static final int LANES = S.length();
    private static final int STEP = 4 * LANES;
    /** Bytes of scratch memory that a transform needs. */
    public static final int SCRATCH = 16 * STEP;

    private WinogradTiles() {
    }

    private static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER);
    }

    private static void store(FloatVector v, long address) {
        v.intoMemorySegment(ALL, address, ORDER);
    }

    /**
     * Transforms a patch of 4×4 pixels, at the given addresses, to one row of each of 16 planes: Bᵀ d B. Intermediate
     * results are kept in 16 vectors of scratch memory, because the compiler does not inline more vector code into one
     * loop.
     */
    public static void patch(long[] at, int bytes, long scratch, long v, long plane) {
        for (int c = 0; c < bytes; c += STEP) {
            for (int j = 0; j < 4; j++) {
                FloatVector d0 = load(at[j] + c);
                FloatVector d1 = load(at[4 + j] + c);
                FloatVector d2 = load(at[8 + j] + c);
                FloatVector d3 = load(at[12 + j] + c);
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

    /**
     * Transforms one row of each of 16 planes to 2×2 pixels, adds a bias and, if requested, takes the positive part: Aᵀ
     * m A.
     */
    public static void pixels(long m, long plane, int bytes, long scratch, long bias, boolean relu, long[] at) {
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
                store(load(from).add(s1).add(s2).add(shift).max(floor), at[2 * i] + c);
                store(s1.sub(s2).sub(load(from + 3 * STEP)).add(shift).max(floor), at[2 * i + 1] + c);
            }
        }
    }

    /** Transforms the gradient of 2×2 pixels to one row of each of 16 planes: A g Aᵀ. */
    public static void gradient(long[] at, int bytes, long z, long plane) {
        for (int c = 0; c < bytes; c += STEP) {
            FloatVector g00 = load(at[0] + c);
            FloatVector g01 = load(at[1] + c);
            FloatVector g10 = load(at[2] + c);
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

    /** Transforms kernels, in 9 planes {@code from} bytes apart, to 16 planes {@code to} bytes apart: G g Gᵀ. */
    public static void kernels(long g, long from, long scratch, long u, long to, long begin, long end) {
        for (long i = begin; i < end; i += STEP) {
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

    /** Transforms gradients of 16 planes back to gradients of kernels: Gᵀ u G. */
    public static void kernelGradients(long u, long from, long scratch, long g, long to, long begin, long end) {
        for (long i = begin; i < end; i += STEP) {
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
