package dev.starling.tensor;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The state of one thread: its innermost scope, its recorder and interceptor, the next tensor id, and arrays that are
 * used again in each operation.
 */
final class ThreadState {
    /** Bits of a tensor's id that count the tensors of a range; each thread takes one range after the other. */
    private static final int RANGE_BITS = 32;
    private static final AtomicLong RANGES = new AtomicLong();
    private static final ThreadLocal<ThreadState> CURRENT = ThreadLocal.withInitial(ThreadState::new);

    @Nullable Scope scope;
    Recorder recorder = Recorder.NONE;
    final BooleanSupplier isRecording = () -> recorder != Recorder.NONE;
    Interceptor interceptor = Interceptor.NONE;
    long nextId = nextRange();
    final long[] dims = new long[Shape.MAX_RANK];
    /** By number of operands. */
    private final Spec[][] specs = new Spec[8][];
    /** The list of storages of the scope that this thread closed last, empty, or {@code null} while another uses it. */
    Storage @Nullable [] spareList;

    private static long nextRange() {
        return RANGES.getAndIncrement() << RANGE_BITS;
    }

    /** Returns a number that no other tensor of this process has. */
    long newId() {
        long id = nextId++;
        if ((nextId & (1L << RANGE_BITS) - 1) == 0) {
            nextId = nextRange();
        }
        return id;
    }

    /** Returns an array for the specs of an operation's operands, valid until the next call. */
    Spec[] specs(int operands) {
        if (operands >= specs.length) {
            return new Spec[operands];
        }
        Spec[] array = specs[operands];
        if (array == null) {
            array = new Spec[operands];
            specs[operands] = array;
        }
        return array;
    }

    static ThreadState current() {
        return CURRENT.get();
    }
}
