package dev.starling.nn;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.function.Supplier;

/**
 * Whether layers train: then dropout drops and batch normalisation uses and learns the batch's statistics. Bound to the
 * thread for the length of a call, so that nothing trains by accident and threads do not disturb each other.
 */
public final class Mode {
    private static final ScopedValue<Mode> CURRENT = ScopedValue.newInstance();
    private static final Mode INFERENCE = new Mode(null);

    private final Generator generator;

    private Mode(Generator generator) {
        this.generator = generator;
    }

    /** Runs {@code body} with layers in training, which draw random numbers from {@code generator}. */
    public static <T> T training(Generator generator, Supplier<T> body) {
        return ScopedValue.where(CURRENT, new Mode(generator)).call(body::get);
    }

    /** Runs {@code body} without training inside {@link #training}: for an evaluation in its midst. */
    public static <T> T inference(Supplier<T> body) {
        return ScopedValue.where(CURRENT, INFERENCE).call(body::get);
    }

    /** Tells whether layers of this thread train. */
    public static boolean isTraining() {
        return CURRENT.isBound() && CURRENT.get() != INFERENCE;
    }

    /**
     * Returns what layers in training draw from.
     *
     * @throws TensorException if nothing trains on this thread
     */
    public static Generator generator() {
        if (!isTraining()) {
            throw TensorException.argument("mode", "random numbers are drawn in training only",
                    "call forward inside Mode.training(generator, body)");
        }
        return CURRENT.get().generator;
    }
}
