package dev.starling.tensor.spi;

/**
 * Copies to a device that overlap its other work, into memory that is reused. The user of the memory calls
 * {@link #lend}; then any threads call {@link #copy} as often as needed; then the user calls {@link #await} before
 * queueing work that reads the bytes:
 *
 * <pre>{@code
 * uploader.lend();                           // queued work may still read the memory
 * uploader.copy(host, device, bytes);        // begins after that work
 * uploader.await();                          // work that is queued later reads the new bytes
 * }</pre>
 *
 * <p>Between {@code lend} and {@code await} no other work that uses the memory may be queued. The memory may be freed
 * to its allocator, which reuses it after the copies. The three calls must not overlap.
 */
public interface Uploader extends AutoCloseable {
    /** Makes the following copies wait for the work that was queued on the device before. */
    void lend();

    /** Begins a copy; returns when the host memory may change again. */
    void copy(long hostAddress, long deviceAddress, long bytes);

    /** Makes work that is queued from now on wait for the copies. The host does not wait. */
    void await();

    /** Closes the uploader; pending copies are completed as by {@link #await}. */
    @Override
    default void close() {
        await();
    }
}
