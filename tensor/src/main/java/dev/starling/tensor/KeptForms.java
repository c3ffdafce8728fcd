package dev.starling.tensor;

import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Form;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The forms of one storage, each at the version at which it was made, and the uses that were counted. Any number of
 * threads may ask. A look-up acquires no lock; the first thread that needs a form makes it, and others do without it
 * meanwhile.
 */
final class KeptForms {
    /** The least number of different keys that a storage keeps. */
    private static final int KEYS = 32;
    /**
     * Each part of a run may have a key of its own, and there are as many parts as threads; several kernels may read
     * one storage, such as those of the forward and the backward pass.
     */
    private static final int KEYS_PER_THREAD = 4;

    private final Allocator allocator;
    /** Replaced as a whole, under the lock of this object. The lock is not held while memory is allocated or freed. */
    private volatile Entry[] entries = {};
    private boolean closed;

    /** A form at a version of the storage. */
    private static final class Kept {
        private final int version;
        private final Form form;
        /** The next one to drop. */
        private @Nullable Kept next;

        Kept(int version, Form form) {
            this.version = version;
            this.form = form;
        }
    }

    /** What was asked for. Written under the lock. */
    private static final class Entry {
        private final Form.Key key;
        /** The version of the last use in the upper half, the number of uses at it in the lower half. */
        private volatile long uses;
        private volatile @Nullable Kept kept;
        private boolean making;

        Entry(Form.Key key) {
            this.key = key;
        }

        boolean isUsed(int version, int times) {
            long seen = uses;
            return (int) (seen >> Integer.SIZE) == version && (int) seen >= times;
        }

        void count(int version) {
            long seen = uses;
            boolean same = (int) (seen >> Integer.SIZE) == version;
            uses = (long) version << Integer.SIZE | (same ? (int) seen + 1 : 1);
        }

        /** Takes the form away and puts it before those to drop. */
        private @Nullable Kept remove(@Nullable Kept others) {
            Kept removed = kept;
            if (removed == null) {
                return others;
            }
            kept = null;
            removed.next = others;
            return removed;
        }
    }

    KeptForms(Allocator allocator) {
        this.allocator = allocator;
    }

    /** Returns whether this use was counted that often before at the version; if not, counts it. */
    boolean isReused(Form.Key use, int version, int times) {
        for (Entry entry : entries) {
            if (entry.isUsed(version, times) && entry.key.matches(use)) {
                return true;
            }
        }
        ask(use, version, false);
        return false;
    }

    /**
     * Returns the form for the caller to close, or {@code null} while another thread makes it, or if there is no memory
     * for it.
     */
    @Nullable Form use(Form.Key key, int version, long bytes, Form.Writer writer) {
        Form found = find(key, version);
        Entry made = found == null ? ask(key, version, true) : null;
        return made == null ? found : make(made, version, bytes, writer);
    }

    /** Returns the form for the caller to close, or {@code null} if none is kept. */
    @Nullable Form find(Form.Key key, int version) {
        for (Entry entry : entries) {
            Kept kept = entry.kept;
            if (kept != null && kept.version == version && entry.key.matches(key) && kept.form.acquire()) {
                return kept.form;
            }
        }
        return null;
    }

    /** Counts a use and drops forms of other versions. Returns the entry if the caller has to make the form. */
    private @Nullable Entry ask(Form.Key key, int version, boolean form) {
        Kept dropped = null;
        Entry found = null;
        boolean makes;
        synchronized (this) {
            for (Entry entry : entries) {
                Kept kept = entry.kept;
                dropped = kept != null && kept.version != version ? entry.remove(dropped) : dropped;
                found = entry.key.matches(key) ? entry : found;
            }
            if (found == null && !closed) {
                int most = Math.max(KEYS, KEYS_PER_THREAD * Parallel.processThreads());
                int first = entries.length >= most ? 1 : 0;
                dropped = first == 1 ? entries[0].remove(dropped) : dropped;
                Entry[] next = Arrays.copyOfRange(entries, first, entries.length + 1);
                found = new Entry(key.copy());
                next[next.length - 1] = found;
                entries = next;
            }
            makes = form && found != null && !found.making && found.kept == null;
            if (found != null && form) {
                found.making |= makes;
            } else if (found != null) {
                found.count(version);
            }
        }
        drop(dropped);
        return makes ? found : null;
    }

    private @Nullable Form make(Entry entry, int version, long bytes, Form.Writer writer) {
        Form form = null;
        try {
            form = Form.of(allocator, bytes, writer);
            return form;
        } catch (TensorException e) {
            if (e.problem() != TensorException.Problem.MEMORY) {
                throw e;
            }
            return null; // The elements are read where they lie.
        } finally {
            synchronized (this) {
                entry.making = false;
                if (form != null && Arrays.asList(entries).contains(entry) && form.acquire()) {
                    entry.kept = new Kept(version, form);
                }
            }
        }
    }

    /** Drops all forms and keeps none from now on. */
    void close() {
        Kept dropped = null;
        synchronized (this) {
            closed = true;
            for (Entry entry : entries) {
                dropped = entry.remove(dropped);
            }
            entries = new Entry[0];
        }
        drop(dropped);
    }

    private static void drop(@Nullable Kept first) {
        for (Kept kept = first; kept != null; kept = kept.next) {
            kept.form.close();
        }
    }
}
