package dev.starling.cuda.memory;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * What was made for keys, as far as it was used lately. Looking up makes nothing. Whoever adds something asks for what
 * is {@link #overdue} and ends that. Not safe for use by several threads.
 *
 * @param <K> type of the keys
 * @param <V> type of what was made for them
 */
public final class LastUsed<K, V> {
    private static final float LOAD = 0.75f;
    /** The part of all that goes at once, so that those who must wait before they end something wait seldom. */
    private static final int SHARE = 8;

    private final int most;
    private final Predicate<V> removable;
    private final Map<K, V> values = new LinkedHashMap<>(16, LOAD, true);

    /**
     * Makes an empty map.
     *
     * @param most how many values it keeps, at least 1
     * @param removable tells whether a value may go
     */
    public LastUsed(int most, Predicate<V> removable) {
        this.most = most;
        this.removable = removable;
    }

    /** Returns what was put for a key, or {@code null}. */
    public V get(K key) {
        return values.get(key);
    }

    /** Adds or replaces a value, which thereby was used. */
    public void put(K key, V value) {
        values.put(key, value);
    }

    /** Returns how many there are. */
    public int size() {
        return values.size();
    }

    /**
     * Takes out those that were used longest ago, if there are more than are to be kept: more than are too many, but
     * never the one used last.
     */
    public List<V> overdue() {
        if (values.size() <= most) {
            return List.of();
        }
        int count = values.size() - most + (most - 1) / SHARE;
        List<V> gone = new ArrayList<>();
        Iterator<V> eldest = values.values().iterator();
        for (int left = values.size() - 1; left > 0 && gone.size() < count; left--) {
            V value = eldest.next();
            if (removable.test(value)) {
                eldest.remove();
                gone.add(value);
            }
        }
        return gone;
    }
}
