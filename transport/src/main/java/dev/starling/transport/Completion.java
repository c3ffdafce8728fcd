package dev.starling.transport;

/** Is told the outcome of a put at its origin. Runs inside {@link Transport#doWork} or the call that began the put. */
@FunctionalInterface
public interface Completion {
    /** Tells that the data are in the peer's memory ({@code true}) or that the peer was lost before that was known. */
    void completed(boolean arrived);
}
