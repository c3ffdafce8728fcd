package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.cpu.x86.Address;
import org.jspecify.annotations.Nullable;

/**
 * Where machine code finds a value.
 *
 * @param register number of a vector or mask register, or -1 for a value in memory
 * @param memory where it lies in memory, or {@code null} for a value in a register
 * @param repeated whether memory has one element, which serves all
 */
record Operand(int register, @Nullable Address memory, boolean repeated) {
    /** No value. */
    static final Operand NONE = new Operand(-1, null, false);

    static Operand register(int register) {
        return new Operand(register, null, false);
    }

    static Operand memory(Address memory, boolean repeated) {
        return new Operand(-1, memory, repeated);
    }

    boolean isMemory() {
        return memory != null;
    }
}
