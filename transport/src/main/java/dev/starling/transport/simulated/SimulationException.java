package dev.starling.transport.simulated;

import dev.starling.errors.StarlingException;

/** A simulated process failed or did not end in time. The message tells the seed, and with it how to see it again. */
public final class SimulationException extends StarlingException {
    private static final long serialVersionUID = 1L;

    SimulationException(String message, Throwable cause) {
        super(message, cause);
    }
}
