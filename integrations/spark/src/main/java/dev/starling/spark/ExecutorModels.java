package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.tensor.Scope;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/** A cache of models that the tasks of this process share for prediction; keeps the most recently used. */
final class ExecutorModels {
    private static final int MAX_MODELS = 4;
    private static final Map<String, Entry> ENTRIES = new LinkedHashMap<>(8, 0.75f, true);

    private ExecutorModels() {
    }

    private static final class Entry {
        private final Layer model;
        private int leases;

        Entry(Layer model) {
            this.model = model;
        }
    }

    /** Returns a model, which stays open until {@link #release}; any number of threads may compute with it. */
    static Layer lease(String digest, Supplier<byte[]> weights) {
        synchronized (ENTRIES) {
            Entry entry = ENTRIES.get(digest);
            if (entry == null) {
                try (SafeTensors file = SafeTensors.of(weights.get())) {
                    entry = new Entry(Scope.detached(() -> ModelDescription.load(file,
                            Thread.currentThread().getContextClassLoader())));
                }
                ENTRIES.put(digest, entry);
            }
            entry.leases++;
            return entry.model;
        }
    }

    /** Ends a lease. */
    static void release(String digest) {
        synchronized (ENTRIES) {
            ENTRIES.get(digest).leases--;
            Iterator<Entry> oldest = ENTRIES.values().iterator();
            while (ENTRIES.size() > MAX_MODELS && oldest.hasNext()) {
                Entry entry = oldest.next();
                if (entry.leases == 0) {
                    oldest.remove();
                    entry.model.close();
                }
            }
        }
    }
}
