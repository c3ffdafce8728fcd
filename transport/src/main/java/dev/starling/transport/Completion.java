package dev.starling.transport;

/** Is told the outcome of a put at its origin. Runs inside {@link Transport#doWork} or the call that began the put. */
@FunctionalInterface
public interface Completion {
    /**
     * Is called once; from then on the source may change.
     *
     * @param arrived {@code true} if the data are in the peer's memory, or were dropped there because its owner had
     *     closed the region: whoever closes one need not say so, and breaks no rule. {@code false} if the peer was
     *     lost, or the source closed, before that was known; then all, some or none of the data may have arrived
     */
    void completed(boolean arrived);
}
