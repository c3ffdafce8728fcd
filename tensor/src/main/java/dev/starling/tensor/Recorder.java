package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import java.util.function.Supplier;

/**
 * Is told of every operation that passes {@link Tensor#apply} on the thread that bound it: a tape, a captured program.
 */
@FunctionalInterface
public interface Recorder {
    /** The recorder of the current thread, if any. */
    ScopedValue<Recorder> CURRENT = ScopedValue.newInstance();

    /** Records nothing: binding it pauses whatever records outside. */
    Recorder NONE = (op, inputs, outputs) -> { };

    /** Takes note of an operation that has been carried out. The arrays must not be changed. */
    void record(Op op, Tensor[] inputs, Tensor[] outputs);

    /** Returns the recorder in force, {@link #NONE} if there is none. */
    static Recorder current() {
        return CURRENT.isBound() ? CURRENT.get() : NONE;
    }

    /** Runs {@code body} with {@code recorder} in force on this thread. */
    static <T> T with(Recorder recorder, Supplier<T> body) {
        return ScopedValue.where(CURRENT, recorder).call(body::get);
    }
}
