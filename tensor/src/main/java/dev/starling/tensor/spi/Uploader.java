package dev.starling.tensor.spi;

/**
 * Copies to a device that run beside what else it does, into memory that is used again and again. The user of the
 * memory calls {@link #lend}, whoever has the bytes calls {@link #copy} as often as needed, on any thread, and the user
 * calls {@link #await} before it asks the device for anything that reads them:
 *
 * <pre>{@code
 * uploader.lend();                           // what was asked for so far may still read the memory
 * uploader.copy(host, device, bytes);        // begins when that is done
 * uploader.await();                          // what is asked for from now on finds the bytes there
 * }</pre>
 *
 * <p>Between {@code lend} and {@code await} nothing else may be asked to use the memory; it may be given back to the
 * allocator, which lends it out again when the copies are done. The three calls do not overlap.
 */
public interface Uploader extends AutoCloseable {
    /** Lets copies from now on run after what the device was asked for so far. */
    void lend();

    /** Begins a copy; returns when the host's memory may change again. */
    void copy(long hostAddress, long deviceAddress, long bytes);

    /** Lets what the device is asked for from now on run after the copies. Does not make the host wait. */
    void await();

    /** Gives it back; copies under way are waited for as by {@link #await}. */
    @Override
    default void close() {
        await();
    }
}
