package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import java.lang.foreign.ValueLayout;

/** Pooling in plain Java. */
final class ScalarPoolRows implements PoolRows {
    static final PoolRows LOOPS = new ScalarPoolRows();

    @Override
    public void max(Taps taps, long step, int placeStep, long y, long index, int pixels, int columns) {
        for (int p = 0; p < pixels; p++) {
            for (int c = 0; c < columns; c++) {
                float best = Float.NEGATIVE_INFINITY;
                int place = taps.count == 0 ? 0 : taps.place[0];
                for (int j = 0; j < taps.count; j++) {
                    float v = getFloat(taps.address[j] + p * step + 4L * c);
                    if (!(v <= best) && best == best) {
                        best = v;
                        place = taps.place[j];
                    }
                }
                long at = 4L * ((long) p * columns + c);
                putFloat(y + at, best);
                ALL.set(ValueLayout.JAVA_INT_UNALIGNED, index + at, place + p * placeStep);
            }
        }
    }

    @Override
    public void weighted(Taps taps, int begin, int end, long step, long y, long yStep, int pixels, int columns) {
        for (int p = 0; p < pixels; p++) {
            for (int c = 0; c < columns; c++) {
                float sum = 0;
                for (int j = begin; j < end; j++) {
                    float v = getFloat(taps.address[j] + p * step + 4L * c);
                    sum = Math.fma(v, taps.weight[j], sum);
                }
                putFloat(y + p * yStep + 4L * c, sum);
            }
        }
    }

    @Override
    public long routed(Taps taps, long step, long toIndex, int place, int placeStep, long y, long yStep, int pixels,
            int columns) {
        long found = 0;
        for (int p = 0; p < pixels; p++) {
            for (int c = 0; c < columns; c++) {
                float sum = 0;
                for (int j = 0; j < taps.count; j++) {
                    long at = taps.address[j] + p * step + 4L * c;
                    if (ALL.get(ValueLayout.JAVA_INT_UNALIGNED, at + toIndex) == place + p * placeStep) {
                        sum += getFloat(at);
                        found++;
                    }
                }
                putFloat(y + p * yStep + 4L * c, sum);
            }
        }
        return found;
    }
}
