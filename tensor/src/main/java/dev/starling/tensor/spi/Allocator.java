package dev.starling.tensor.spi;

/** A device's caching allocator. Safe for use by several threads. */
public interface Allocator {
    /**
     * Lends a block of at least {@code bytes}; its content is undefined.
     *
     * @throws dev.starling.tensor.TensorException if memory is exhausted after the cache was given back
     */
    Block allocate(long bytes);

    /** Takes a block back into the cache. */
    void free(Block block);

    /** Gives cached memory back to the system. */
    void trim();

    /** Returns the counters. */
    MemoryUse use();
}
