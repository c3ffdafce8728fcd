package dev.starling.transport;

/**
 * Callback for the outcome of a put, at its origin. Runs inside {@link Transport#doWork} or inside the call that began
 * the put.
 */
@FunctionalInterface
public interface Completion {
    /**
     * Called once; afterwards the source may change.
     *
     * @param arrived {@code true} if the data are in the peer's memory, or were dropped there because their owner had
     *     closed the region: the owner may do so without notice. {@code false} if the peer was lost or the source was
     *     closed before the outcome was known; then all, some or none of the data may have arrived
     */
    void onComplete(boolean arrived);
}
