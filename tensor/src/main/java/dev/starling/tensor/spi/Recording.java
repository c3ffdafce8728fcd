package dev.starling.tensor.spi;

/** Work that a device has taken down and does again at one command, without the host code of its operations. */
public interface Recording extends AutoCloseable {
    /**
     * Runs the host code of a part again, whose parameters have changed: what it would queue takes the place of what
     * was taken down, kernel for kernel.
     */
    void renew(int part);

    /** Queues all of it. */
    void run();

    /** Gives it back. */
    @Override
    void close();
}
