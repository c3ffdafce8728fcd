package dev.starling.transport.simulated;

/** Thrown inside a simulated process to end it wherever it is: the process crashed, or the simulation is over. */
final class Unwinding extends Error {
    /** How often it is thrown into code that catches it and continues. */
    static final int ATTEMPTS = 1000;

    private static final long serialVersionUID = 1L;

    Unwinding(String why) {
        super(why);
    }
}
