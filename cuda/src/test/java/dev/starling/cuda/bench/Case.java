package dev.starling.cuda.bench;

/** What can be run again and again; owns what it needs. */
interface Case extends AutoCloseable {
    /** Runs once; the device may still be busy after it. */
    void run();

    @Override
    void close();
}
