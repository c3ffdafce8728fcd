package dev.starling.tensor.spi;

/** A device's caching allocator. Thread-safe. */
public interface Allocator {
    /**
     * Allocates a block of at least {@code bytes} with undefined content.
     *
     * @throws dev.starling.tensor.TensorException if memory is exhausted even after the cache was trimmed
     */
    Block allocate(long bytes);

    /** Returns a block to the cache. */
    void free(Block block);

    /** Runs {@code frees}, which frees many blocks. An allocator with a lock acquires it once for all of them. */
    default void freeMany(Runnable frees) {
        frees.run();
    }

    /** Frees cached memory to the system. */
    void trim();

    /** Returns the counters. */
    MemoryUse use();
}
