package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The loops with the Vector API. Blocks of columns are the outer loop and rows the inner one, so that per-column values
 * stay in registers; the last columns are masked.
 */
final class VectorRows implements Rows {
    static final Rows LOOPS = new VectorRows();
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();
    private static final int BLOCK = 4096;

    private static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER);
    }

    private static FloatVector load(long address, VectorMask<Float> mask) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER, mask);
    }

    private static void store(FloatVector v, long address) {
        v.intoMemorySegment(ALL, address, ORDER);
    }

    @Override
    public void moments(long x, long stride, int rows, int columns, long pivot, long sum, long squares) {
        int c = 0;
        for (; c + 2 * LANES <= columns; c += 2 * LANES) {
            long at = 4L * c;
            long next = at + 4L * LANES;
            FloatVector p0 = load(pivot + at);
            FloatVector p1 = load(pivot + next);
            FloatVector s0 = load(sum + at);
            FloatVector s1 = load(sum + next);
            FloatVector q0 = load(squares + at);
            FloatVector q1 = load(squares + next);
            long row = x;
            for (int r = 0; r < rows; r++, row += stride) {
                FloatVector d0 = load(row + at).sub(p0);
                FloatVector d1 = load(row + next).sub(p1);
                s0 = s0.add(d0);
                s1 = s1.add(d1);
                q0 = d0.fma(d0, q0);
                q1 = d1.fma(d1, q1);
            }
            store(s0, sum + at);
            store(s1, sum + next);
            store(q0, squares + at);
            store(q1, squares + next);
        }
        for (; c < columns; c += LANES) {
            long at = 4L * c;
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector p = load(pivot + at, m);
            FloatVector s = load(sum + at, m);
            FloatVector q = load(squares + at, m);
            for (int r = 0; r < rows; r++) {
                FloatVector d = load(x + r * stride + at, m).sub(p);
                s = s.add(d);
                q = d.fma(d, q);
            }
            s.intoMemorySegment(ALL, sum + at, ORDER, m);
            q.intoMemorySegment(ALL, squares + at, ORDER, m);
        }
    }

    @Override
    public void gradientMoments(long g, long x, long y, long stride, int rows, int columns, long mean, long sum,
            long product) {
        long gate = y == 0 ? g : y;
        VectorMask<Float> counts = S.maskAll(y != 0);
        int c = 0;
        for (; c + LANES <= columns; c += LANES) {
            long at = 4L * c;
            FloatVector m = load(mean + at);
            FloatVector s = load(sum + at);
            FloatVector p = load(product + at);
            long row = at;
            for (int r = 0; r < rows; r++, row += stride) {
                FloatVector v = gated(load(g + row), load(gate + row), counts);
                s = s.add(v);
                p = v.fma(load(x + row).sub(m), p);
            }
            store(s, sum + at);
            store(p, product + at);
        }
        if (c < columns) {
            long at = 4L * c;
            VectorMask<Float> k = S.indexInRange(c, columns);
            FloatVector m = load(mean + at, k);
            FloatVector s = load(sum + at, k);
            FloatVector p = load(product + at, k);
            for (int r = 0; r < rows; r++) {
                long row = r * stride + at;
                FloatVector v = gated(load(g + row, k), load(gate + row, k), counts);
                s = s.add(v);
                p = v.fma(load(x + row, k).sub(m), p);
            }
            s.intoMemorySegment(ALL, sum + at, ORDER, k);
            p.intoMemorySegment(ALL, product + at, ORDER, k);
        }
    }

    /** Returns g where the gate is above 0, or everywhere if gates do not count; a gate of NaN is not above 0. */
    private static FloatVector gated(FloatVector g, FloatVector gate, VectorMask<Float> counts) {
        return g.blend(FloatVector.zero(S), counts.andNot(gate.compare(VectorOperators.GT, 0f)));
    }

    @Override
    public void columnSums(long x, long stride, int rows, int columns, long sum) {
        int c = 0;
        for (; c + 4 * LANES <= columns; c += 4 * LANES) {
            long at = 4L * c;
            long w = 4L * LANES;
            FloatVector s0 = load(sum + at);
            FloatVector s1 = load(sum + at + w);
            FloatVector s2 = load(sum + at + 2 * w);
            FloatVector s3 = load(sum + at + 3 * w);
            long row = x + at;
            for (int r = 0; r < rows; r++, row += stride) {
                s0 = s0.add(load(row));
                s1 = s1.add(load(row + w));
                s2 = s2.add(load(row + 2 * w));
                s3 = s3.add(load(row + 3 * w));
            }
            store(s0, sum + at);
            store(s1, sum + at + w);
            store(s2, sum + at + 2 * w);
            store(s3, sum + at + 3 * w);
        }
        for (; c < columns; c += LANES) {
            long at = 4L * c;
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector s = load(sum + at, m);
            for (int r = 0; r < rows; r++) {
                s = s.add(load(x + r * stride + at, m));
            }
            s.intoMemorySegment(ALL, sum + at, ORDER, m);
        }
    }

    @Override
    public void columnExtremes(long x, long stride, int rows, int columns, long extreme, boolean max) {
        for (int c = 0; c < columns; c += LANES) {
            long at = 4L * c;
            VectorMask<Float> m = S.indexInRange(c, columns);
            FloatVector e = load(extreme + at, m);
            for (int r = 0; r < rows; r++) {
                FloatVector v = load(x + r * stride + at, m);
                e = max ? e.max(v) : e.min(v);
            }
            e.intoMemorySegment(ALL, extreme + at, ORDER, m);
        }
    }

    @Override
    public double sum(long x, long n) {
        double total = 0;
        for (long from = 0; from < n; from += BLOCK) {
            total += block(x + 4 * from, (int) Math.min(BLOCK, n - from));
        }
        return total;
    }

    private static double block(long x, int n) {
        FloatVector s0 = FloatVector.zero(S);
        FloatVector s1 = s0;
        FloatVector s2 = s0;
        FloatVector s3 = s0;
        long w = 4L * LANES;
        int i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            long at = x + 4L * i;
            s0 = s0.add(load(at));
            s1 = s1.add(load(at + w));
            s2 = s2.add(load(at + 2 * w));
            s3 = s3.add(load(at + 3 * w));
        }
        for (; i < n; i += LANES) {
            s0 = s0.add(load(x + 4L * i, S.indexInRange(i, n)));
        }
        return LaneSum.of(s0.add(s1).add(s2.add(s3)));
    }

    @Override
    public float extreme(long x, long n, boolean max) {
        FloatVector e = FloatVector.broadcast(S, max ? Float.NEGATIVE_INFINITY : Float.POSITIVE_INFINITY);
        long i = 0;
        for (; i + LANES <= n; i += LANES) {
            FloatVector v = load(x + 4 * i);
            e = max ? e.max(v) : e.min(v);
        }
        if (i < n) {
            VectorMask<Float> m = S.indexInRange(0, (int) (n - i));
            FloatVector v = e.blend(load(x + 4 * i, m), m);
            e = max ? e.max(v) : e.min(v);
        }
        return max ? e.reduceLanes(VectorOperators.MAX) : e.reduceLanes(VectorOperators.MIN);
    }
}
