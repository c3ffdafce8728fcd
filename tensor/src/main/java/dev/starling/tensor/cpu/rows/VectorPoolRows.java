package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Pooling with the Vector API: channels in lanes, the last ones masked. */
final class VectorPoolRows implements PoolRows {
    static final PoolRows LOOPS = new VectorPoolRows();
    private static final VectorSpecies<Float> S = FloatVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Integer> I = IntVector.SPECIES_PREFERRED;
    private static final int LANES = S.length();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER);
    }

    private static FloatVector load(long address, VectorMask<Float> mask) {
        return FloatVector.fromMemorySegment(S, ALL, address, ORDER, mask);
    }

    /** Returns the lanes in which {@code best} is kept: it is NaN, or not less than a {@code v} that is not NaN. */
    private static VectorMask<Float> stays(FloatVector best, FloatVector v) {
        return v.compare(VectorOperators.LE, best).or(best.compare(VectorOperators.NE, best));
    }

    @Override
    public void max(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns) {
        if (taps.count == 4 && columns >= LANES) {
            maxOfFour(taps, step, placeStep, y, index, pixels, columns);
            return;
        }
        FloatVector lowest = FloatVector.broadcast(S, Float.NEGATIVE_INFINITY);
        int first = taps.count == 0 ? 0 : taps.place[0];
        for (int p = 0; p < pixels; p++) {
            for (int c = 0; c < columns; c += LANES) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                FloatVector best = lowest;
                IntVector place = IntVector.broadcast(I, first + p * placeStep);
                for (int j = 0; j < taps.count; j++) {
                    FloatVector v = load(taps.address[j] + p * step + 4L * c, m);
                    VectorMask<Float> stays = stays(best, v);
                    best = v.blend(best, stays);
                    place = IntVector.broadcast(I, taps.place[j] + p * placeStep).blend(place, stays.cast(I));
                }
                long at = 4L * ((long) p * columns + c);
                best.intoMemorySegment(ALL, y + at, ORDER, m);
                place.intoMemorySegment(ALL, index + at, ORDER, m.cast(I));
            }
        }
    }

    /** The common window of four taps, kept in registers; the last vector of a pixel overlaps the preceding one. */
    private static void maxOfFour(Taps taps, long step, int placeStep, long y, long index, int pixels,
            int columns) {
        long x0 = taps.address[0];
        long x1 = taps.address[1];
        long x2 = taps.address[2];
        long x3 = taps.address[3];
        IntVector next = IntVector.broadcast(I, placeStep);
        IntVector p0 = IntVector.broadcast(I, taps.place[0]);
        IntVector p1 = IntVector.broadcast(I, taps.place[1]);
        IntVector p2 = IntVector.broadcast(I, taps.place[2]);
        IntVector p3 = IntVector.broadcast(I, taps.place[3]);
        long from = 0;
        long to = 0;
        for (int p = 0; p < pixels; p++, from += step, to += 4L * columns) {
            for (int i = 0; i < columns; i += LANES) {
                long c = 4L * Math.min(i, columns - LANES);
                FloatVector best = load(x0 + from + c);
                FloatVector v = load(x1 + from + c);
                VectorMask<Float> stays = stays(best, v);
                best = v.blend(best, stays);
                IntVector place = p1.blend(p0, stays.cast(I));
                v = load(x2 + from + c);
                stays = stays(best, v);
                best = v.blend(best, stays);
                place = p2.blend(place, stays.cast(I));
                v = load(x3 + from + c);
                stays = stays(best, v);
                best = v.blend(best, stays);
                place = p3.blend(place, stays.cast(I));
                best.intoMemorySegment(ALL, y + to + c, ORDER);
                place.intoMemorySegment(ALL, index + to + c, ORDER);
            }
            p0 = p0.add(next);
            p1 = p1.add(next);
            p2 = p2.add(next);
            p3 = p3.add(next);
        }
    }

    @Override
    public void weighted(Taps taps, int begin, int end, long step, long y, long yStep, int pixels, int columns) {
        for (int p = 0; p < pixels; p++) {
            long from = p * step;
            long to = y + p * yStep;
            int c = 0;
            for (; c + LANES <= columns; c += LANES) {
                FloatVector sum = FloatVector.zero(S);
                for (int j = begin; j < end; j++) {
                    sum = load(taps.address[j] + from + 4L * c).fma(FloatVector.broadcast(S, taps.weight[j]), sum);
                }
                sum.intoMemorySegment(ALL, to + 4L * c, ORDER);
            }
            if (c < columns) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                FloatVector sum = FloatVector.zero(S);
                for (int j = begin; j < end; j++) {
                    sum = load(taps.address[j] + from + 4L * c, m).fma(FloatVector.broadcast(S, taps.weight[j]), sum);
                }
                sum.intoMemorySegment(ALL, to + 4L * c, ORDER, m);
            }
        }
    }

    @Override
    public long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns) {
        long found = 0;
        for (int p = 0; p < pixels; p++) {
            IntVector own = IntVector.broadcast(I, place + p * placeStep);
            long from = p * step;
            long to = y + p * yStep;
            int c = 0;
            for (; c + LANES <= columns; c += LANES) {
                FloatVector sum = FloatVector.zero(S);
                for (int j = 0; j < taps.count; j++) {
                    long at = taps.address[j] + from + 4L * c;
                    VectorMask<Integer> here = IntVector.fromMemorySegment(I, ALL, at + toIndex, ORDER)
                            .compare(VectorOperators.EQ, own);
                    sum = sum.add(load(at), here.cast(S));
                    found += here.trueCount();
                }
                sum.intoMemorySegment(ALL, to + 4L * c, ORDER);
            }
            if (c < columns) {
                VectorMask<Float> m = S.indexInRange(c, columns);
                FloatVector sum = FloatVector.zero(S);
                for (int j = 0; j < taps.count; j++) {
                    long at = taps.address[j] + from + 4L * c;
                    VectorMask<Integer> here = IntVector.fromMemorySegment(I, ALL, at + toIndex, ORDER, m.cast(I))
                            .compare(VectorOperators.EQ, own).and(m.cast(I));
                    sum = sum.add(load(at, m), here.cast(S));
                    found += here.trueCount();
                }
                sum.intoMemorySegment(ALL, to + 4L * c, ORDER, m);
            }
        }
        return found;
    }
}
