package dev.starling.tensor.cpu.jit;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RBP;
import static dev.starling.tensor.cpu.x86.Assembler.RBX;
import static dev.starling.tensor.cpu.x86.Assembler.RCX;
import static dev.starling.tensor.cpu.x86.Assembler.RDI;
import static dev.starling.tensor.cpu.x86.Assembler.RDX;
import static dev.starling.tensor.cpu.x86.Assembler.RSI;
import static dev.starling.tensor.cpu.x86.Assembler.RSP;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.Assembler.Condition;
import dev.starling.tensor.cpu.x86.Assembler.General;
import java.util.Arrays;
import java.util.List;

/**
 * The general registers and the stack of a machine-code loop. RDI holds the frame, RSI the number of rows left, RCX the
 * column, R8 the number of columns, RDX the column at which a section ends; RAX, R9, R10 and R11 are temporary.
 * Pointers to the operands' rows are in the other registers, and on the stack where there are more operands.
 */
final class NativeFrame {
    static final int COLUMNS = 8;
    static final int INDEX = 9;
    private static final int STEP = 10;
    private static final int ELEMENT = 11;
    private static final int[] SAVED = {RBX, RBP, 12, 13, 14, 15};
    private static final int ALIGNMENT = 64;

    private final Assembler code;
    private final List<DType> types;
    private final List<Access> accesses;
    private final int[] registers;
    private final Address[] spilled;
    /** Bytes of the stack in use; the first eight hold the stack pointer of the caller. */
    private int stack = ALIGNMENT;
    private int highest = ALIGNMENT;
    private int reservation;

    NativeFrame(Assembler code, List<DType> types, List<Access> accesses) {
        this.code = code;
        this.types = types;
        this.accesses = accesses;
        registers = new int[accesses.size()];
        spilled = new Address[accesses.size()];
        Arrays.fill(registers, -1);
        for (int k = 0; k < registers.length; k++) {
            if (k < SAVED.length) {
                registers[k] = SAVED[k];
            } else {
                spilled[k] = reserve(8);
            }
        }
    }

    /** Reserves memory on the stack, aligned to its size. */
    Address reserve(int bytes) {
        stack = (stack + bytes - 1) & -bytes;
        Address slot = Address.of(RSP, stack);
        stack += bytes;
        highest = Math.max(highest, stack);
        return slot;
    }

    int mark() {
        return stack;
    }

    /** Frees what was reserved since a mark. */
    void reset(int mark) {
        stack = mark;
    }

    private int operands() {
        return registers.length;
    }

    private Address rowStride(int k) {
        return Address.of(RDI, 8 * (operands() + k));
    }

    private Address columnStride(int k) {
        return Address.of(RDI, 8 * (2 * operands() + k));
    }

    Address parameter(int number) {
        return Address.of(RDI, 8 * (3 * operands() + number));
    }

    private int bytes(int k) {
        return types.get(k).bytes();
    }

    /** Saves registers, sets pointers to the first row, and counts what there is to do. */
    void enter() {
        for (int register : SAVED) {
            code.push(register);
        }
        code.general(General.MOVE, RAX, RSP);
        code.sub(RSP, 0);
        reservation = code.position();
        code.and(RSP, -ALIGNMENT);
        code.store(8, Address.of(RSP, 0), RAX);
        for (int k = 0; k < operands(); k++) {
            code.general(General.MOVE, RAX, RSI);
            code.general(General.MULTIPLY, RAX, rowStride(k));
            code.general(General.ADD, RAX, Address.of(RDI, 8 * k));
            if (accesses.get(k) == Access.STRIDED) {
                code.general(General.MOVE, INDEX, RCX);
                code.general(General.MULTIPLY, INDEX, columnStride(k));
                code.general(General.ADD, RAX, INDEX);
            } else if (accesses.get(k) == Access.CONTIGUOUS) {
                code.general(General.LOAD_ADDRESS, RAX, new Address(RAX, RCX, bytes(k), 0));
            }
            if (registers[k] >= 0) {
                code.general(General.MOVE, registers[k], RAX);
            } else {
                code.store(8, spilled[k], RAX);
            }
        }
        code.general(General.SUB, RDX, RSI);
        code.general(General.MOVE, RSI, RDX);
        code.general(General.SUB, COLUMNS, RCX);
    }

    /** Returns to the caller; the result is the number of rows left and, in the low half, this column. */
    void leave() {
        code.general(General.MOVE, RAX, RSI);
        code.bytes(0x48, 0xC1, 0xE0, 32);
        code.general(General.ADD, RAX, RCX);
        code.bytes(0xC5, 0xF8, 0x77);
        code.general(General.MOVE, RSP, Address.of(RSP, 0));
        for (int i = SAVED.length - 1; i >= 0; i--) {
            code.pop(SAVED[i]);
        }
        code.bytes(0xC3);
        code.patch(reservation, highest + ALIGNMENT);
    }

    void nextRow() {
        for (int k = 0; k < operands(); k++) {
            if (registers[k] >= 0) {
                code.general(General.ADD, registers[k], rowStride(k));
            } else {
                code.general(General.MOVE, RAX, spilled[k]);
                code.general(General.ADD, RAX, rowStride(k));
                code.store(8, spilled[k], RAX);
            }
        }
    }

    private int pointer(int k) {
        if (registers[k] >= 0) {
            return registers[k];
        }
        code.general(General.MOVE, RAX, spilled[k]);
        return RAX;
    }

    /** Returns the operand's element in this row, if it has one. */
    Address ofRow(int k) {
        return Address.of(pointer(k), 0);
    }

    /** Returns the operand's element at this column. */
    Address ofColumn(int k) {
        return new Address(pointer(k), RCX, bytes(k), 0);
    }

    /** Copies RDX elements that are a stride apart to a buffer, or from there. */
    void copyStrided(int k, Address buffer, boolean gathers) {
        int bytes = bytes(k);
        if (accesses.get(k) == Access.STRIDED) {
            code.general(General.MOVE, STEP, columnStride(k));
        } else {
            code.set(STEP, bytes);
        }
        code.general(General.MOVE, INDEX, RCX);
        code.general(General.MULTIPLY, INDEX, STEP);
        int pointer = pointer(k);
        if (pointer != RAX) {
            code.general(General.MOVE, RAX, pointer);
        }
        code.general(General.ADD, RAX, INDEX);
        code.general(General.XOR, INDEX, INDEX);
        int loop = code.label();
        code.bind(loop);
        Address element = Address.of(RAX, 0);
        Address place = new Address(RSP, INDEX, bytes, buffer.displacement());
        element(bytes, gathers ? element : place);
        code.store(bytes, gathers ? place : element, ELEMENT);
        code.general(General.ADD, RAX, STEP);
        code.add(INDEX, 1);
        code.general(General.COMPARE, INDEX, RDX);
        code.jump(Condition.BELOW, loop);
    }

    private void element(int bytes, Address source) {
        switch (bytes) {
            case 1 -> code.general(General.BYTE, ELEMENT, source);
            case 2 -> code.general(General.SIGNED_WORD, ELEMENT, source);
            case 4 -> code.load32(ELEMENT, source);
            default -> code.general(General.MOVE, ELEMENT, source);
        }
    }
}
