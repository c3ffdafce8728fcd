package dev.starling.distributed.ps.wire;

import java.util.Arrays;
import org.agrona.collections.Long2LongHashMap;

/** Sums gradients of rows by key. Allocates only when it grows. */
public final class RowSum {
    private static final long MISSING = -1;

    private final Long2LongHashMap places = new Long2LongHashMap(1024, 0.5f, MISSING);
    private long[] keys = new long[0];
    private float[] sums = new float[0];
    private int width;
    private int size;

    public void begin(int newWidth) {
        width = newWidth;
        size = 0;
        places.clear();
    }

    public void add(long[] newKeys, int n, float[] gradients, float share) {
        for (int i = 0; i < n; i++) {
            long place = places.get(newKeys[i]);
            if (place == MISSING) {
                place = size;
                append(newKeys[i]);
            }
            int to = (int) place * width;
            for (int j = 0; j < width; j++) {
                sums[to + j] = Math.fma(gradients[i * width + j], share, sums[to + j]);
            }
        }
    }

    private void append(long key) {
        if (size == keys.length || (size + 1) * width > sums.length) {
            int room = Math.max(64, 2 * size);
            keys = Arrays.copyOf(keys, room);
            sums = Arrays.copyOf(sums, Math.multiplyExact(room, width));
        }
        places.put(key, size);
        keys[size] = key;
        Arrays.fill(sums, size * width, (size + 1) * width, 0);
        size++;
    }

    /** Returns the number of different keys. */
    public int size() {
        return size;
    }

    /** Returns the keys, of which the first {@link #size} are valid until the next {@link #add}. */
    public long[] keys() {
        return keys;
    }

    /** Returns the sums in the order of {@link #keys}, valid until the next {@link #add}. */
    public float[] sums() {
        return sums;
    }
}
