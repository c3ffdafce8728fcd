package dev.starling.transport;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Processes that wait until fewer others have yet to prove that they have the secret. Their HELLOs are signed, so these
 * are members of the cluster, or recordings of members. An entry takes a few hundred bytes and no link.
 */
final class HelloQueue {
    /** Maximum number of entries: as many as a group may have members. */
    static final int MAX = 4096;
    /** A process that still waits repeats its HELLO ten times in this time. */
    private static final long STALE_NS = TimeUnit.SECONDS.toNanos(1);

    /** By identity, the oldest first. */
    private final Map<String, Entry> waiting = new LinkedHashMap<>();

    private static final class Entry {
        private final Authentication.Hello hello;
        private long seenNs;

        Entry(Authentication.Hello hello) {
            this.hello = hello;
        }
    }

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    /** Adds a process unless it waits already; returns whether it waits now. */
    boolean add(Authentication.Hello hello, long now) {
        if (waiting.size() == MAX && !waiting.containsKey(hello.identity())) {
            return false;
        }
        waiting.computeIfAbsent(hello.identity(), _ -> new Entry(hello)).seenNs = now;
        return true;
    }

    /** Removes and returns the HELLO of the process that has waited longest and still waits; {@code null} for none. */
    Authentication.@Nullable Hello next(long now) {
        for (Iterator<Entry> all = waiting.values().iterator(); all.hasNext();) {
            Entry first = all.next();
            all.remove();
            if (now - first.seenNs <= STALE_NS) {
                return first.hello;
            }
        }
        return null;
    }
}
