package dev.starling.transport.simulated;

/** Ends a simulated process where it stands, whatever it is doing: it crashed, or the simulation is over. */
final class Unwinding extends Error {
    /** How often it is thrown at code that catches it and goes on. */
    static final int ATTEMPTS = 1000;

    private static final long serialVersionUID = 1L;

    Unwinding(String why) {
        super(why);
    }
}
