package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.spi.Block;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * What one thread needs while it runs primitives: a stream, scratch memory from the allocator of the host, and the
 * compiled primitives, of which the least recently used go when there are more than {@value #CAPACITY}. A session is
 * borrowed for a slice of a call and given back, so there are as many as there were slices at once, whatever the
 * number of threads that come and go. oneDNN shares generated code between sessions.
 *
 * <p>While a session is borrowed the calling thread's OpenMP thread count is one; the earlier value comes back with
 * {@link #close}, as other libraries of the process may use the same OpenMP.
 */
final class Session implements AutoCloseable {
    private static final int CAPACITY = 512;
    private static final int SLOTS = 64;
    private static final long KEPT_BYTES = 64 << 10;
    private static final AtomicReferenceArray<Session> IDLE = new AtomicReferenceArray<>(SLOTS);

    private final long stream = Dnnl.stream();
    private final Key key = new Key();
    private final Scratch[] scratch = new Scratch[Use.values().length];
    private final Map<Key, Compiled> compiled = new LinkedHashMap<>(64, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Key, Compiled> eldest) {
            if (size() <= CAPACITY) {
                return false;
            }
            eldest.getValue().close();
            return true;
        }
    };
    private int outerOmpThreads;

    private Session() {
        for (int i = 0; i < scratch.length; i++) {
            scratch[i] = new Scratch();
        }
    }

    /** An idle session, best the one that this thread had last; a new one if none is idle. */
    static Session borrow() {
        int start = (int) Thread.currentThread().threadId();
        Session session = null;
        for (int i = 0; i < SLOTS && session == null; i++) {
            int slot = start + i & SLOTS - 1;
            if (IDLE.getPlain(slot) != null) {
                session = IDLE.getAndSet(slot, null);
            }
        }
        if (session == null) {
            session = new Session();
        }
        session.outerOmpThreads = Dnnl.ompThreads();
        if (session.outerOmpThreads != 1) {
            Dnnl.ompThreads(1);
        }
        return session;
    }

    /** Gives the session back, and large scratch memory to the allocator. */
    @Override
    public void close() {
        for (Scratch one : scratch) {
            if (one.block != null && one.block.capacity() > KEPT_BYTES) {
                one.free();
            }
        }
        if (outerOmpThreads != 1) {
            Dnnl.ompThreads(outerOmpThreads);
        }
        int start = (int) Thread.currentThread().threadId();
        for (int i = 0; i < SLOTS; i++) {
            if (IDLE.compareAndSet(start + i & SLOTS - 1, null, this)) {
                return;
            }
        }
        destroy();
    }

    long stream() {
        return stream;
    }

    /** The key to write before {@link #find}. */
    Key key() {
        return key;
    }

    /** What was compiled for the key as it stands, or null. */
    Compiled find() {
        return compiled.get(key);
    }

    <T extends Compiled> T keep(Key kept, T made) {
        compiled.put(kept, made);
        return made;
    }

    /** At least {@code bytes} of memory for this use, until the next call for the same use. */
    long memory(Use use, long bytes) {
        return scratch[use.ordinal()].atLeast(bytes);
    }

    private void destroy() {
        compiled.values().forEach(Compiled::close);
        Dnnl.destroy(Dnnl.Kind.STREAM, stream);
        for (Scratch one : scratch) {
            one.free();
        }
    }

    /** The purposes of scratch memory; no two share a piece of it. */
    enum Use { SCRATCHPAD, SOURCE, WEIGHTS, DESTINATION, BIAS }

    private static final class Scratch {
        private Block block;

        private long atLeast(long wanted) {
            if (block == null || block.capacity() < wanted) {
                free();
                block = HostAllocator.shared().allocate(wanted);
            }
            return block.address();
        }

        private void free() {
            if (block != null) {
                HostAllocator.shared().free(block);
                block = null;
            }
        }
    }
}
