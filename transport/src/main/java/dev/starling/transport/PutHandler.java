package dev.starling.transport;

/** Is told when a peer's put with an immediate value has arrived. Runs inside {@link Transport#doWork}. */
@FunctionalInterface
public interface PutHandler {
    /** Tells that all bytes of a put, and of all puts that this peer began before, are in memory. */
    void onPut(Endpoint from, long immediate);
}
