package dev.starling.nn;

import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.TensorException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Whether layers are in training mode. In training mode dropout drops elements, and batch normalisation uses the
 * statistics of the batch and updates its running statistics. The mode holds for the duration of one call, on its
 * thread and in the forks of a {@link java.util.concurrent.StructuredTaskScope} that this thread opens. Code outside
 * that call and other threads stay in inference mode.
 *
 * <p>A tape records the operations of its own thread only: to it, what a fork computes is a constant, through which
 * no gradient passes. While it records in training mode, a fork that reads weights, frozen ones too, and records on no
 * tape of its own, gets a {@link TensorException}. A fork that needs no gradients computes in {@link #inference} mode.
 */
public final class Mode {
    private static final ScopedValue<Mode> CURRENT = ScopedValue.newInstance();
    private static final Mode INFERENCE = new Mode(null, null, () -> false);

    private final @Nullable Generator generator;
    /** The thread that entered training mode, or {@code null}. */
    private final @Nullable Thread owner;
    /** Returns whether that thread records. */
    private final BooleanSupplier ownerRecords;

    private Mode(@Nullable Generator generator, @Nullable Thread owner, BooleanSupplier ownerRecords) {
        this.generator = generator;
        this.owner = owner;
        this.ownerRecords = ownerRecords;
    }

    /** Runs {@code body} with layers in training mode. They draw random numbers from {@code generator}. */
    public static <T> T training(Generator generator, Supplier<T> body) {
        return training(generator).call(body::get);
    }

    /** Returns training mode as a context that can be entered together with others. */
    static ScopedValue.Carrier training(Generator generator) {
        return ScopedValue.where(CURRENT, new Mode(generator, Thread.currentThread(), Recorder.isBoundHere()));
    }

    /** Runs {@code body} in inference mode, for an evaluation inside {@link #training}. */
    public static <T> T inference(Supplier<T> body) {
        return ScopedValue.where(CURRENT, INFERENCE).call(body::get);
    }

    /** Returns whether layers that this thread calls are in training mode. */
    public static boolean isTraining() {
        return CURRENT.isBound() && CURRENT.get() != INFERENCE;
    }

    /** Throws if a fork of a thread that records a training step reads weights, without recording itself. */
    static void requireRecording() {
        Mode mode = CURRENT.isBound() ? CURRENT.get() : INFERENCE;
        if (mode.owner != Thread.currentThread() && mode.ownerRecords.getAsBoolean()
                && Recorder.current() == Recorder.NONE) {
            throw TensorException.argument("mode", "a fork of " + mode.owner + " reads weights, but the tape records "
                    + "only the operations of that thread: no gradient would pass through the fork",
                    "compute a training step on one thread or, where no gradient is needed, call Mode.inference in the "
                            + "fork");
        }
    }

    /**
     * Returns the generator from which layers in training mode draw random numbers.
     *
     * @throws TensorException if this thread is not in training mode
     */
    public static Generator generator() {
        Generator generator = CURRENT.isBound() ? CURRENT.get().generator : null;
        if (generator == null) {
            throw TensorException.argument("mode", "layers draw random numbers only in training mode",
                    "call forward inside Mode.training(generator, body)");
        }
        return generator;
    }
}
