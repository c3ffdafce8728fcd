package dev.starling.tensor.spi;

/**
 * An allocator's counters, in bytes.
 *
 * @param live bytes in use
 * @param peak the largest number of bytes that were in use at one time
 * @param cached bytes cached for reuse
 * @param allocations number of requests to the system
 */
public record MemoryUse(long live, long peak, long cached, long allocations) { }
