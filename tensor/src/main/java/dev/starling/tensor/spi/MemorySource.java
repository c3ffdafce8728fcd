package dev.starling.tensor.spi;

/** The source of a {@link CachingAllocator}'s memory. Called with the allocator's lock held. */
public interface MemorySource {
    /** Returns the name of the device for observers: {@code cpu}, {@code cuda:0}. */
    String name();

    /** Returns the address of unused memory, aligned as blocks must be, or 0 if none is left. */
    long allocate(long bytes);

    /** Frees memory that {@link #allocate} returned. */
    void free(long address);

    /** Returns an addition to the message when memory is exhausted, or an empty text. */
    default String shortage() {
        return "";
    }

    /** Returns the remedy when a request is refused although little of this memory is in use. */
    default String remedy() {
        return "end other processes that use this memory, or use smaller batches";
    }
}
