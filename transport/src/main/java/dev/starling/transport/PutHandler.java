package dev.starling.transport;

/** Callback for the arrival of puts that carry an immediate value. Runs inside {@link Transport#doWork}. */
@FunctionalInterface
public interface PutHandler {
    /** Called when all bytes of a put, and of all puts that this peer began earlier, are in memory. */
    void onPut(Endpoint from, long immediate);
}
