package dev.starling.nn;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Whether layers are in training mode. In training mode dropout drops elements, and batch normalisation uses the
 * statistics of the batch and updates its running statistics. The mode is bound to the thread for the duration of one
 * call: code outside that call stays in inference mode, and threads do not affect each other.
 */
public final class Mode {
    private static final ScopedValue<Mode> CURRENT = ScopedValue.newInstance();
    private static final Mode INFERENCE = new Mode(null);

    private final @Nullable Generator generator;

    private Mode(@Nullable Generator generator) {
        this.generator = generator;
    }

    /** Runs {@code body} with layers in training mode. They draw random numbers from {@code generator}. */
    public static <T> T training(Generator generator, Supplier<T> body) {
        return training(generator).call(body::get);
    }

    /** Returns training mode as a context that can be entered together with others. */
    static ScopedValue.Carrier training(Generator generator) {
        return ScopedValue.where(CURRENT, new Mode(generator));
    }

    /** Runs {@code body} in inference mode, for an evaluation inside {@link #training}. */
    public static <T> T inference(Supplier<T> body) {
        return ScopedValue.where(CURRENT, INFERENCE).call(body::get);
    }

    /** Returns whether layers that this thread calls are in training mode. */
    public static boolean isTraining() {
        return CURRENT.isBound() && CURRENT.get() != INFERENCE;
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
