package dev.starling.tensor.spi;

/** Work that a device has recorded and can launch with one command, without the host code of its operations. */
public interface Recording extends AutoCloseable {
    /** Returns whether the current thread may renew and run this recording; a thread that may not makes its own. */
    default boolean isUsable() {
        return true;
    }

    /**
     * Runs the host code of a part again, with changed parameters: the work that it queues replaces the recorded work
     * of the part, kernel for kernel.
     */
    void renew(int part);

    /** Queues the whole recording. */
    void run();

    /** Frees the recording. */
    @Override
    void close();
}
