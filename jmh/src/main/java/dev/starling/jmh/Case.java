package dev.starling.jmh;

/** A workload that an engine has prepared to run repeatedly: memory is allocated and parameters are made. */
public interface Case extends AutoCloseable {
    /** Runs the work once and waits for its end, on a GPU without waiting. */
    void run();

    /** Releases what was prepared. */
    @Override
    void close();
}
