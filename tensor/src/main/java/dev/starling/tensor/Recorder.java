package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * Receives every operation that passes {@link Tensor#apply} on the thread that bound it, for example as a tape.
 */
@FunctionalInterface
public interface Recorder {
    /** Records nothing; binding it pauses the enclosing recorder. */
    Recorder NONE = (op, inputs, outputs) -> { };

    /**
     * Records an operation that has been carried out. The arrays must not be changed; those of a
     * {@link dev.starling.tensor.op.Update} may get other elements after the call.
     */
    void record(Op op, Tensor[] inputs, Tensor[] outputs);

    /** Returns the recorder bound to this thread, or {@link #NONE}. */
    static Recorder current() {
        return ThreadState.current().recorder;
    }

    /** Returns whether a recorder is bound to this thread, at each call anew; threads that it starts may ask. */
    static BooleanSupplier isBoundHere() {
        return ThreadState.current().isRecording;
    }

    /** Runs {@code body} with {@code recorder} bound to this thread. */
    static <T> T with(Recorder recorder, Supplier<T> body) {
        ThreadState thread = ThreadState.current();
        Recorder outer = thread.recorder;
        thread.recorder = recorder;
        try {
            return body.get();
        } finally {
            thread.recorder = outer;
        }
    }
}
