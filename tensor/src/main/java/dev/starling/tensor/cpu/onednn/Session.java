package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.spi.Block;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The resources of one thread while it runs primitives: a stream, scratch memory from the host's allocator, and the
 * compiled primitives, of which the least recently used are destroyed when there are more than {@value #CAPACITY}. A
 * session is acquired for a slice of a call and then released, so there are as many sessions as there were concurrent
 * slices, however many threads start and end. oneDNN shares generated code between sessions.
 *
 * <p>While a session is acquired, the calling thread's OpenMP thread count is one; {@link #close} restores the earlier
 * value, because other libraries of the process may use the same OpenMP runtime.
 */
final class Session implements AutoCloseable {
    private static final int CAPACITY = 512;
    private static final long KEPT_BYTES = 64 << 10;
    private static final IdlePool<Session> IDLE = new IdlePool<>();

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

    /** Acquires an idle session, preferably the one that this thread used last, or a new one if none is idle. */
    static Session acquire() {
        Session idle = IDLE.take();
        Session session = idle == null ? new Session() : idle;
        session.outerOmpThreads = Dnnl.ompThreads();
        if (session.outerOmpThreads != 1) {
            Dnnl.ompThreads(1);
        }
        return session;
    }

    /** Releases the session, and large scratch memory to the allocator. */
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
        if (!IDLE.give(this)) {
            destroy();
        }
    }

    long stream() {
        return stream;
    }

    /** Returns the key to write before {@link #find}. */
    Key key() {
        return key;
    }

    /** Returns what was compiled for the current key, or {@code null}. */
    @Nullable Compiled find() {
        return compiled.get(key);
    }

    <T extends Compiled> T keep(Key kept, T made) {
        compiled.put(kept, made);
        return made;
    }

    /** Returns at least {@code bytes} of memory for this use, valid until the next call for the same use. */
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

    /** The purposes of scratch memory; each has memory of its own. */
    enum Use { SCRATCHPAD, SOURCE, WEIGHTS, DESTINATION, BIAS }

    private static final class Scratch {
        private @Nullable Block block;

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
