package dev.starling.cuda.gpu;

import java.lang.foreign.MemorySegment;
import org.bytedeco.javacpp.Pointer;

/** A pointer of the bindings to memory that it does not own; can be pointed elsewhere. */
public final class RawPointer extends Pointer {
    /** Makes a null pointer. */
    public RawPointer() { }

    /** Makes a pointer to memory, which stays with its owner. */
    public static RawPointer of(MemorySegment memory) {
        return of(memory.address());
    }

    /** Makes a pointer to an address. */
    public static RawPointer of(long address) {
        return new RawPointer().to(address);
    }

    /** Points to an address and returns itself. */
    public RawPointer to(long newAddress) {
        address = newAddress;
        return this;
    }
}
