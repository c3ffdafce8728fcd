package dev.starling.transport.simulated;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/**
 * A simulated process failed or did not end in time. The message contains the seed, with which the run can be repeated.
 */
public final class SimulationException extends StarlingException {
    private static final long serialVersionUID = 1L;

    SimulationException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
