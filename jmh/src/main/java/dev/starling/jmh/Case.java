package dev.starling.jmh;

/** A workload that an engine has prepared: memory allocated, parameters made, ready to run again and again. */
public interface Case extends AutoCloseable {
    /** Does the work once and waits for its end. */
    void run();

    /** Gives back what was prepared. */
    @Override
    void close();
}
