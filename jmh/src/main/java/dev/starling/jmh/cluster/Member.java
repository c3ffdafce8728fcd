package dev.starling.jmh.cluster;

/** One process of a measurement. All members get the same orders. */
interface Member extends AutoCloseable {
    /** Size of the largest message. */
    int MAX_BYTES = 64 << 20;

    /**
     * Runs an operation a number of times together with the other members; returns the nanoseconds that it took here.
     */
    long time(Measure measure, int bytes, int runs) throws Exception;

    /** Keeps the connections alive while there are no orders. */
    default void idle() { }

    @Override
    void close();
}
