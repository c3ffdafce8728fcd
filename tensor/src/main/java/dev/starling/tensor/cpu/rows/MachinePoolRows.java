package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;
import static dev.starling.tensor.host.HostMemory.ALL;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;

import dev.starling.tensor.cpu.jit.RowLoop;

/**
 * Pooling in machine code: pixels are rows and channels columns. One pass for each tap; four taps of a maximum, the
 * common window, in one pass.
 */
final class MachinePoolRows implements PoolRows {
    static final PoolRows LOOPS = new MachinePoolRows();
    private static final int COMMON = 4;
    /** Floats count so far without rounding. */
    private static final int EXACT = 1 << 24;

    private final RowLoop first = RowLoop.of(b -> {
        b.store(b.column());
        b.store(b.addIntegers(b.row(), b.row()));
    });
    private final RowLoop next = RowLoop.of(b -> {
        int[] best = {b.column(), b.column()};
        larger(b, best, b.column(), b.addIntegers(b.row(), b.row()));
        b.store(best[0]);
        b.store(best[1]);
    });
    private final RowLoop four = RowLoop.of(b -> {
        int base = b.row();
        int[] best = {b.column(), b.addIntegers(b.row(), base)};
        for (int j = 1; j < COMMON; j++) {
            int v = b.column();
            larger(b, best, v, b.addIntegers(b.row(), base));
        }
        b.store(best[0]);
        b.store(best[1]);
    });
    private final RowLoop fill = RowLoop.of(b -> b.store(b.row()));
    private final RowLoop weighted = RowLoop.of(b -> b.store(b.fma(b.column(), b.row(), b.column())));
    private final RowLoop routed = RowLoop.of(b -> {
        int sum = b.column();
        int v = b.column();
        int index = b.column();
        int own = b.addIntegers(b.row(), b.row());
        b.store(b.ifSame(index, own, b.add(sum, v), sum));
        b.sum(b.ifSame(index, own, b.constant(1), b.constant(0)));
    });
    private final RowLoop sum = RowLoop.of(b -> b.sum(b.column()));

    /** The best is kept if it is NaN, or not less than a value that is not NaN. */
    private static void larger(RowLoop.Builder b, int[] best, int v, int place) {
        int[] kept = best.clone();
        best[0] = b.ifStays(v, kept[0], kept[0], v);
        best[1] = b.ifStays(v, kept[0], kept[1], place);
    }

    private static void setInteger(long list, int k, int value) {
        ALL.set(JAVA_INT_UNALIGNED, list + 4L * k, value);
    }

    private void fill(float value, long y, long yStep, int pixels, int columns) {
        long values = RowValues.list(3);
        set(values, 0, value);
        fill.call().operand(values, 0)
                .operand(y, yStep)
                .run(pixels, columns);
    }

    @Override
    public void max(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns) {
        long row = 4L * columns;
        if (taps.count == 0) {
            fill(Float.NEGATIVE_INFINITY, y, row, pixels, columns);
            fill(0, index, row, pixels, columns);
            return;
        }
        long steps = RowValues.multiples(placeStep);
        int group;
        for (int p = 0; p < pixels; p += group) {
            group = Math.min(pixels - p, RowValues.ROWS);
            if (taps.count == COMMON) {
                maxOfFour(taps, p * step, step, p * placeStep, steps, y + p * row, index + p * row, group, columns);
            } else {
                maxOfAny(taps, p * step, step, p * placeStep, steps, y + p * row, index + p * row, group, columns);
            }
        }
    }

    /** Places of the first pixel are {@code shift} behind those of the taps; {@code steps} lists those of each next. */
    private void maxOfFour(Taps taps, long from, long step, int shift, long steps, long y, long index, int pixels,
            int columns) {
        long places = RowValues.list(1);
        RowLoop.Call call = four.call().operand(steps, 4);
        for (int j = 0; j < COMMON; j++) {
            setInteger(places, j, taps.place[j] + shift);
            call.operand(taps.address[j] + from, step).operand(places + 4L * j, 0);
        }
        call.operand(y, 4L * columns).operand(index, 4L * columns).run(pixels, columns);
    }

    private void maxOfAny(Taps taps, long from, long step, int shift, long steps, long y, long index, int pixels,
            int columns) {
        long place = RowValues.list(1);
        long row = 4L * columns;
        setInteger(place, 0, taps.place[0] + shift);
        first.call().operand(taps.address[0] + from, step)
                .operand(y, row)
                .operand(place, 0)
                .operand(steps, 4)
                .operand(index, row)
                .run(pixels, columns);
        for (int j = 1; j < taps.count; j++) {
            setInteger(place, 0, taps.place[j] + shift);
            next.call().operand(y, row)
                    .operand(index, row)
                    .operand(taps.address[j] + from, step)
                    .operand(place, 0)
                    .operand(steps, 4)
                    .operand(y, row)
                    .operand(index, row)
                    .run(pixels, columns);
        }
    }

    @Override
    public void weighted(Taps taps, int begin, int end, long step, long y, long yStep, int pixels, int columns) {
        long weight = RowValues.list(0);
        fill(0, y, yStep, pixels, columns);
        for (int j = begin; j < end; j++) {
            set(weight, 0, taps.weight[j]);
            weighted.call().operand(taps.address[j], step)
                    .operand(weight, 0)
                    .operand(y, yStep)
                    .operand(y, yStep)
                    .run(pixels, columns);
        }
    }

    @Override
    public long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns) {
        long counts = RowValues.list(0);
        long own = RowValues.list(1);
        long total = RowValues.list(2);
        long steps = RowValues.multiples(placeStep);
        long found = 0;
        fill(0, y, yStep, pixels, columns);
        int most = Math.clamp(EXACT / columns, 1, RowValues.ROWS);
        int group;
        for (int p = 0; p < pixels; p += group) {
            group = Math.min(pixels - p, most);
            setInteger(own, 0, place + p * placeStep);
            for (int j = 0; j < taps.count; j++) {
                long at = taps.address[j] + p * step;
                routed.call().operand(y + p * yStep, yStep)
                        .operand(at, step)
                        .operand(at + toIndex, step)
                        .operand(own, 0)
                        .operand(steps, 4)
                        .operand(y + p * yStep, yStep)
                        .operand(counts, 4)
                        .run(group, columns);
                sum.call().operand(counts, 0).operand(total, 0).run(1, group);
                found += (long) get(total);
            }
        }
        return found;
    }
}
