package dev.starling.tensor.cpu.jit;

import java.util.Arrays;
import java.util.function.IntToLongFunction;

/** The registers of one kind and the values that they hold while a loop's body is assembled. */
final class RegisterFile {
    private static final int FREE = -1;
    /** Holds a value throughout the loop over columns. */
    private static final int PINNED = -2;
    private static final int RESERVED = -3;

    private final int[] owners;

    /** Registers from {@code first} up to {@code end}, exclusive. */
    RegisterFile(int first, int end) {
        owners = new int[end];
        Arrays.fill(owners, 0, first, RESERVED);
        Arrays.fill(owners, first, end, FREE);
    }

    /** Returns how many registers are free. */
    int count() {
        int count = 0;
        for (int owner : owners) {
            count += owner == FREE ? 1 : 0;
        }
        return count;
    }

    /** Returns a register that is free, or -1. */
    int free() {
        for (int r = owners.length - 1; r >= 0; r--) {
            if (owners[r] == FREE) {
                return r;
            }
        }
        return -1;
    }

    /** Returns the register whose value is needed last. */
    int victim(IntToLongFunction nextUse) {
        int victim = -1;
        long latest = -1;
        for (int r = 0; r < owners.length; r++) {
            if (owners[r] >= 0 && nextUse.applyAsLong(owners[r]) > latest) {
                latest = nextUse.applyAsLong(owners[r]);
                victim = r;
            }
        }
        return victim;
    }

    int owner(int register) {
        return owners[register];
    }

    boolean isFree(int register) {
        return owners[register] == FREE;
    }

    void assign(int register, int value) {
        owners[register] = value;
    }

    void release(int register) {
        if (owners[register] >= 0) {
            owners[register] = FREE;
        }
    }

    void pin(int register) {
        owners[register] = PINNED;
    }

    /** Frees all registers; those that are pinned too if {@code unpins}. */
    void clear(boolean unpins) {
        for (int r = 0; r < owners.length; r++) {
            if (owners[r] >= 0 || unpins && owners[r] == PINNED) {
                owners[r] = FREE;
            }
        }
    }
}
