package dev.starling.cuda.bench;

/** Repeatable work; owns what it needs. */
interface Case extends AutoCloseable {
    /** Runs once; the device may still be busy when this returns. */
    void run();

    @Override
    void close();
}
