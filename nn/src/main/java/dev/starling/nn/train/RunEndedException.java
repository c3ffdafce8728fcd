package dev.starling.nn.train;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/**
 * A run of several processes is over before its end. {@link Trainer#run} throws no other exception of this library if
 * it trains with the strategy of more than one process: strategies throw subclasses that state what happened, and where
 * something else ends the run (a batch that cannot be read, a checkpoint, a loss that is not finite), that is the
 * cause. What the caller's own code throws, such as a listener, passes unchanged.
 */
public class RunEndedException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final int rank;

    /**
     * Creates an exception.
     *
     * @param rank at which the reason lies; -1 if it lies at no single rank
     * @param cause the underlying failure, or {@code null}
     */
    public RunEndedException(int rank, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.rank = rank;
    }

    /** Returns the rank at which the reason lies, in the numbers of that moment; -1 if it lies at no single rank. */
    public int rank() {
        return rank;
    }
}
