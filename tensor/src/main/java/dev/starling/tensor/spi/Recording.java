package dev.starling.tensor.spi;

/** Work that a device has recorded and can launch with one command, without the host code of its operations. */
public interface Recording extends AutoCloseable {
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
