package dev.starling.distributed.ps.wire;

import java.util.Arrays;
import org.agrona.collections.Long2LongHashMap;

/** Numbers the keys of rows, and sums gradients by key. Allocates only when it grows. */
public final class RowSum {
    private static final long MISSING = -1;

    private final Long2LongHashMap places = new Long2LongHashMap(1024, 0.5f, MISSING);
    private long[] keys = new long[0];
    private float[] sums = new float[0];
    private int width;
    private int size;

    /** Removes all keys; without a width, keys are only numbered. */
    public void begin(int newWidth) {
        width = newWidth;
        size = 0;
        places.clear();
    }

    public void add(long[] newKeys, int n, float[] gradients, float share) {
        for (int i = 0; i < n; i++) {
            int to = numberOf(newKeys[i]) * width;
            for (int j = 0; j < width; j++) {
                sums[to + j] = Math.fma(gradients[i * width + j], share, sums[to + j]);
            }
        }
    }

    /** Returns the number of a key, which is added if it is new. */
    public int numberOf(long key) {
        long known = places.get(key);
        if (known != MISSING) {
            return (int) known;
        }
        if (size == keys.length || (size + 1) * width > sums.length) {
            int room = Math.max(64, 2 * size);
            keys = Arrays.copyOf(keys, room);
            sums = Arrays.copyOf(sums, Math.multiplyExact(room, width));
        }
        places.put(key, size);
        keys[size] = key;
        Arrays.fill(sums, size * width, (size + 1) * width, 0);
        return size++;
    }

    /** Returns the number of different keys. */
    public int size() {
        return size;
    }

    /** Returns the keys by number, of which the first {@link #size} are valid until the next {@link #add}. */
    public long[] keys() {
        return keys;
    }

    /** Returns the sums in the order of {@link #keys}, valid until the next {@link #add}. */
    public float[] sums() {
        return sums;
    }
}
