package dev.starling.cuda.gpu;

import org.bytedeco.javacpp.Pointer;

/** A pointer of the bindings to memory that somebody else owns; can be pointed elsewhere. */
public final class RawPointer extends Pointer {
    /** Makes a null pointer. */
    public RawPointer() { }

    /** Points to an address and returns itself. */
    public RawPointer to(long newAddress) {
        address = newAddress;
        return this;
    }
}
