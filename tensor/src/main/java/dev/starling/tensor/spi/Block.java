package dev.starling.tensor.spi;

/** A block of device memory from an {@link Allocator}. */
public class Block {
    private final long address;
    private final long capacity;

    /**
     * Makes a block.
     *
     * @param address where it starts; on the host aligned to 64 bytes
     * @param capacity its size in bytes
     */
    public Block(long address, long capacity) {
        this.address = address;
        this.capacity = capacity;
    }

    /** Returns the address of the first byte. */
    public final long address() {
        return address;
    }

    /** Returns the size in bytes. */
    public final long capacity() {
        return capacity;
    }
}
