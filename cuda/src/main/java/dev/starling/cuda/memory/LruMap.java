package dev.starling.cuda.memory;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A map that keeps the values used most recently. It never creates values. After adding one, the caller calls
 * {@link #evict} and closes what it returns. Not safe for use by several threads.
 *
 * @param <K> type of the keys
 * @param <V> type of the values
 */
public final class LruMap<K, V> {
    private static final float LOAD = 0.75f;
    /** The fraction to evict together: closing a value may have to wait, so it should happen seldom. */
    private static final int SHARE = 8;

    private final int capacity;
    private final Predicate<V> removable;
    private final Map<K, V> values = new LinkedHashMap<>(16, LOAD, true);

    /**
     * Makes an empty map.
     *
     * @param capacity how many values it keeps, at least 1
     * @param removable returns whether a value may be evicted now
     */
    public LruMap(int capacity, Predicate<V> removable) {
        this.capacity = capacity;
        this.removable = removable;
    }

    /** Returns a key's value, which counts as a use, or {@code null}. */
    public @Nullable V get(K key) {
        return values.get(key);
    }

    /** Adds or replaces a value, which counts as a use. */
    public void put(K key, V value) {
        values.put(key, value);
    }

    /** Returns the number of values. */
    public int size() {
        return values.size();
    }

    /**
     * Removes the least recently used values if the map exceeds its capacity: the excess and a fraction more, but never
     * the value used last.
     *
     * @return the removed values, which the caller has to close
     */
    public List<V> evict() {
        if (values.size() <= capacity) {
            return List.of();
        }
        int count = values.size() - capacity + (capacity - 1) / SHARE;
        List<V> evicted = new ArrayList<>();
        Iterator<V> eldest = values.values().iterator();
        for (int left = values.size() - 1; left > 0 && evicted.size() < count; left--) {
            V value = eldest.next();
            if (removable.test(value)) {
                eldest.remove();
                evicted.add(value);
            }
        }
        return evicted;
    }
}
