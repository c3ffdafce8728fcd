package dev.starling.tensor.spi;

/**
 * An allocator's counters, in bytes.
 *
 * @param live lent out now
 * @param peak the most that was ever lent out at once
 * @param cached held for reuse
 * @param allocations how often memory was asked of the system
 */
public record MemoryUse(long live, long peak, long cached, long allocations) { }
