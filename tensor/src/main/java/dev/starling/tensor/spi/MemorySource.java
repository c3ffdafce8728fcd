package dev.starling.tensor.spi;

/** Where a {@link CachingAllocator} gets memory from. Called with the allocator's lock held. */
public interface MemorySource {
    /** Returns whose memory it is, for observers: {@code cpu}, {@code cuda:0}. */
    String name();

    /** Returns the address of memory that nobody else uses, aligned as blocks are to be, or 0 if none is left. */
    long allocate(long bytes);

    /** Takes back what {@link #allocate} returned. */
    void free(long address);

    /** Returns what else there is to say when memory runs out, or nothing. */
    default String shortage() {
        return "";
    }
}
