package dev.starling.jmh.cluster;

/** One process of a crew. All members are given the same orders. */
interface Member extends AutoCloseable {
    /** Largest message in bytes. */
    int LARGEST = 64 << 20;

    /** Does something so often together with the other members; returns the nanoseconds that took here. */
    long time(Measure measure, int bytes, int runs) throws Exception;

    /** Keeps the connections alive while there are no orders. */
    default void idle() { }

    @Override
    void close();
}
