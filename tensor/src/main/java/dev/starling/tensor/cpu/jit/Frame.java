package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * What a kernel's loop reads: for each operand its address, then for each its row stride and for each its column stride
 * in bytes, then the parameters, each as a long. Lies outside of Java's heap, where machine code can read it.
 */
final class Frame {
    private MemorySegment memory = allocate(64);
    private long address = memory.address();

    private static MemorySegment allocate(int longs) {
        return Arena.ofAuto().allocate(8L * longs, 64);
    }

    /** Returns the address, which is valid as long as this frame is reachable. */
    long address() {
        return address;
    }

    /** Makes room; what the frame holds is lost if it grows. */
    void ensure(int longs) {
        if (8L * longs > memory.byteSize()) {
            memory = allocate(longs);
            address = memory.address();
        }
    }

    void set(int index, long value) {
        HostMemory.ALL.set(ValueLayout.JAVA_LONG, address + 8L * index, value);
    }

    void add(int index, long value) {
        set(index, HostMemory.ALL.get(ValueLayout.JAVA_LONG, address + 8L * index) + value);
    }

    void copy(Frame other) {
        ensure((int) (other.memory.byteSize() / 8));
        MemorySegment.copy(other.memory, 0, memory, 0, other.memory.byteSize());
    }
}
