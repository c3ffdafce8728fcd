package dev.starling.tensor.cpu.gemm;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RCX;
import static dev.starling.tensor.cpu.x86.Assembler.RDI;
import static dev.starling.tensor.cpu.x86.Assembler.RDX;
import static dev.starling.tensor.cpu.x86.Assembler.RSI;

import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.Assembler.Condition;
import dev.starling.tensor.cpu.x86.Assembler.General;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.cpu.x86.Simd;

/**
 * Machine code that packs columns of a right operand, whose elements are contiguous, row by row into a panel as wide as
 * a tile. Functions take the address of the source, the address of the target, the bytes from column
 * to column of the source, and the number of rows. Behind the last row, they write up to {@link #EXCESS} bytes.
 */
final class PackCode {
    /** Elements of a vector. */
    static final int LANES = TileCode.VECTOR_BYTES / 4;
    /** Rows that are packed at a time. */
    private static final int GROUP = 4;
    private static final int BITS = TileCode.BITS;
    private static final int R8 = 8;
    private static final int DISTANCE = RAX;
    private static final int SOURCE = 9;
    private static final int TARGET = 10;
    private static final int LEFT = 11;
    private static final int TRIPLE_STRIDE = 8;
    private static final int LANE_MASKS = 9;
    /** Pointers to each fourth column. */
    private static final int[] POINTERS = BITS == 512 ? new int[] {RDI, RDX, 10, 11} : new int[] {RDI, RDX};
    private static final int STRIDE = RAX;
    /** Vector registers of AVX2: a mask of rows, and columns before they move to the upper half of a register. */
    private static final int ROW_MASK = 9;
    private static final int UPPER = 10;

    private static final int STEP = 4 * TileCode.COLUMNS;
    /** Bytes written behind the last row at most. */
    static final int EXCESS = GROUP * STEP;

    private PackCode() { }

    /**
     * Returns the function for so many columns, at most one vector full. Each 128 bits of a register receive four
     * elements of one column, which are exchanged with those of the next three.
     */
    static MachineCode assemble(int columns) {
        Assembler code = new Assembler();
        code.general(General.MOVE, STRIDE, RDX);
        code.general(General.LOAD_ADDRESS, TRIPLE_STRIDE, new Address(STRIDE, STRIDE, 2, 0));
        for (int lane = 1; lane < POINTERS.length; lane++) {
            code.general(General.LOAD_ADDRESS, POINTERS[lane], new Address(POINTERS[lane - 1], STRIDE, 4, 0));
        }
        int next = code.label();
        int rest = code.label();
        int end = code.label();
        if (BITS == 512) {
            code.set(LANE_MASKS, (1 << GROUP) - 1);
            masks(code);
        }
        code.sub(RCX, GROUP);
        code.jump(Condition.BELOW, rest);
        code.bind(next);
        group(code, columns, false);
        for (int pointer : POINTERS) {
            code.add(pointer, 4 * GROUP);
        }
        code.add(RSI, GROUP * STEP);
        code.sub(RCX, GROUP);
        code.jump(Condition.ABOVE_OR_EQUAL, next);
        code.bind(rest);
        code.add(RCX, GROUP);
        code.jump(Condition.ZERO, end);
        if (BITS == 512) {
            code.set(LANE_MASKS, 1);
            code.shiftLeft(LANE_MASKS);
            code.add(LANE_MASKS, -1);
            masks(code);
        } else {
            code.vex(Simd.MOVD, 128, ROW_MASK, 0, RCX);
            code.vex(Simd.PBROADCASTD, 128, ROW_MASK, 0, ROW_MASK);
            code.vex(Simd.PCMPGTD, 128, ROW_MASK, ROW_MASK, code.constant(1L << 32, 3L << 32 | 2), 0);
        }
        group(code, columns, true);
        code.bind(end);
        code.bytes(0xC5, 0xF8, 0x77, 0xC3);
        return MachineCode.required(code);
    }

    /**
     * Returns the function that copies rows into full panels, one behind the other. It takes the bytes from row to row
     * of the source, the number of rows, and that of panels.
     */
    static MachineCode assembleRows() {
        Assembler code = new Assembler();
        code.set(DISTANCE, STEP);
        code.general(General.MULTIPLY, DISTANCE, RCX);
        int row = code.label();
        int panel = code.label();
        code.bind(row);
        code.general(General.MOVE, SOURCE, RDI);
        code.general(General.MOVE, TARGET, RSI);
        code.general(General.MOVE, LEFT, R8);
        code.bind(panel);
        for (int v = 0; v < TileCode.VECTORS; v++) {
            code.vector(Simd.MOVUPS, BITS, v, 0, Address.of(SOURCE, v * TileCode.VECTOR_BYTES));
            code.vector(Simd.STOREUPS, BITS, v, 0, Address.of(TARGET, v * TileCode.VECTOR_BYTES));
        }
        code.add(SOURCE, STEP);
        code.general(General.ADD, TARGET, DISTANCE);
        code.sub(LEFT, 1);
        code.jump(Condition.NOT_ZERO, panel);
        code.general(General.ADD, RDI, RDX);
        code.add(RSI, STEP);
        code.sub(RCX, 1);
        code.jump(Condition.NOT_ZERO, row);
        code.bytes(0xC5, 0xF8, 0x77, 0xC3);
        return MachineCode.required(code);
    }

    /**
     * Returns the function that copies rows of at least one vector to places at {@link #spread} bytes. It takes the
     * bytes from row to row of the source, the number of rows, and that of their elements.
     */
    static MachineCode assembleSpread() {
        Assembler code = new Assembler();
        code.general(General.ADD, R8, R8);
        code.general(General.ADD, R8, R8);
        code.general(General.LOAD_ADDRESS, DISTANCE, Address.of(R8, 2 * TileCode.VECTOR_BYTES - 1));
        code.and(DISTANCE, -TileCode.VECTOR_BYTES);
        code.sub(R8, TileCode.VECTOR_BYTES);
        int row = code.label();
        int next = code.label();
        code.bind(row);
        code.general(General.XOR, LEFT, LEFT);
        code.bind(next);
        code.vector(Simd.MOVUPS, BITS, 0, 0, new Address(RDI, LEFT, 1, 0));
        code.vector(Simd.STOREUPS, BITS, 0, 0, new Address(RSI, LEFT, 1, 0));
        code.add(LEFT, TileCode.VECTOR_BYTES);
        code.general(General.COMPARE, LEFT, R8);
        code.jump(Condition.BELOW, next);
        code.vector(Simd.MOVUPS, BITS, 0, 0, new Address(RDI, R8, 1, 0));
        code.vector(Simd.STOREUPS, BITS, 0, 0, new Address(RSI, R8, 1, 0));
        code.general(General.ADD, RDI, RDX);
        code.general(General.ADD, RSI, DISTANCE);
        code.sub(RCX, 1);
        code.jump(Condition.NOT_ZERO, row);
        code.bytes(0xC5, 0xF8, 0x77, 0xC3);
        return MachineCode.required(code);
    }

    /** Returns the bytes between rows of so many elements that do not share sets of the first-level cache. */
    static long spread(long elements) {
        return 4 * elements + 2 * TileCode.VECTOR_BYTES - 1 & -TileCode.VECTOR_BYTES;
    }

    /** Makes a mask register for each 128 bits, of as many elements as the low bits of a register have. */
    private static void masks(Assembler code) {
        for (int lane = 0; lane < POINTERS.length; lane++) {
            code.vex(Simd.KMOVD, 128, 1 + lane, 0, LANE_MASKS);
            for (int doubling = 0; doubling < GROUP; doubling++) {
                code.general(General.ADD, LANE_MASKS, LANE_MASKS);
            }
        }
    }

    private static void group(Assembler code, int columns, boolean masked) {
        for (int j = 0; j < GROUP; j++) {
            if (j >= columns) {
                code.vector(Simd.PXORD, BITS, j, j, j);
            }
            for (int column = j; column < columns; column += GROUP) {
                int pointer = POINTERS[column / GROUP];
                Address from = j == 0 ? Address.of(pointer, 0)
                        : new Address(pointer, j == 3 ? TRIPLE_STRIDE : STRIDE, j == 3 ? 1 : j, 0);
                if (BITS == 512) {
                    code.evex(Simd.BROADCASTF32X4, BITS, j, 0, from, false, 1 + column / GROUP, column == j, 0);
                } else {
                    loadHalf(code, j, column != j, from, masked);
                }
            }
        }
        code.vector(Simd.UNPCKLPS, BITS, 4, 0, 1);
        code.vector(Simd.UNPCKHPS, BITS, 5, 0, 1);
        code.vector(Simd.UNPCKLPS, BITS, 6, 2, 3);
        code.vector(Simd.UNPCKHPS, BITS, 7, 2, 3);
        code.vector(Simd.UNPCKLPD, BITS, 0, 4, 6);
        code.vector(Simd.UNPCKHPD, BITS, 1, 4, 6);
        code.vector(Simd.UNPCKLPD, BITS, 2, 5, 7);
        code.vector(Simd.UNPCKHPD, BITS, 3, 5, 7);
        for (int k = 0; k < GROUP; k++) {
            code.vector(Simd.STOREUPS, BITS, k, 0, Address.of(RSI, STEP * k));
        }
    }

    /** Loads 128 bits into the lower half of a register, and clears the other, or into the upper half. */
    private static void loadHalf(Assembler code, int register, boolean upper, Address from, boolean masked) {
        int target = upper ? UPPER : register;
        if (masked) {
            code.vex(Simd.MASKMOVPS, 128, target, ROW_MASK, from, 0);
        } else {
            code.vex(Simd.MOVUPS, 128, target, 0, from, 0);
        }
        if (upper) {
            code.vex(Simd.INSERTF128, BITS, register, register, UPPER);
            code.bytes(1);
        }
    }
}
