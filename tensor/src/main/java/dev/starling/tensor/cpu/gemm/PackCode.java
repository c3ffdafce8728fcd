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
 * Machine code for AVX-512 that packs columns of a right operand, whose elements are contiguous, row by row into a
 * panel as wide as a tile. Functions take the address of the source, the address of the target, the bytes from column
 * to column of the source, and the number of rows. Behind the last row, they write up to {@link #EXCESS} bytes.
 */
final class PackCode {
    /** Elements of a vector. */
    static final int LANES = 16;
    /** Rows that are packed at a time. */
    private static final int GROUP = 4;
    private static final int BITS = 512;
    private static final int TRIPLE_STRIDE = 8;
    private static final int LANE_MASKS = 9;
    /** Pointers to each fourth column. */
    private static final int[] POINTERS = {RDI, RDX, 10, 11};
    private static final int STRIDE = RAX;

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
        code.set(LANE_MASKS, (1 << GROUP) - 1);
        int next = code.label();
        int rest = code.label();
        int end = code.label();
        masks(code);
        code.sub(RCX, GROUP);
        code.jump(Condition.BELOW, rest);
        code.bind(next);
        group(code, columns);
        for (int pointer : POINTERS) {
            code.add(pointer, 4 * GROUP);
        }
        code.add(RSI, GROUP * STEP);
        code.sub(RCX, GROUP);
        code.jump(Condition.ABOVE_OR_EQUAL, next);
        code.bind(rest);
        code.add(RCX, GROUP);
        code.jump(Condition.ZERO, end);
        code.set(LANE_MASKS, 1);
        code.shiftLeft(LANE_MASKS);
        code.add(LANE_MASKS, -1);
        masks(code);
        group(code, columns);
        code.bind(end);
        code.bytes(0xC5, 0xF8, 0x77, 0xC3);
        return MachineCode.required(code);
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

    private static void group(Assembler code, int columns) {
        for (int j = 0; j < GROUP; j++) {
            if (j >= columns) {
                code.evex(Simd.PXORD, BITS, j, j, j, 0, false);
            }
            for (int column = j; column < columns; column += GROUP) {
                int pointer = POINTERS[column / GROUP];
                Address from = j == 0 ? Address.of(pointer, 0)
                        : new Address(pointer, j == 3 ? TRIPLE_STRIDE : STRIDE, j == 3 ? 1 : j, 0);
                code.evex(Simd.BROADCASTF32X4, BITS, j, 0, from, false, 1 + column / GROUP, column == j, 0);
            }
        }
        code.evex(Simd.UNPCKLPS, BITS, 4, 0, 1, 0, false);
        code.evex(Simd.UNPCKHPS, BITS, 5, 0, 1, 0, false);
        code.evex(Simd.UNPCKLPS, BITS, 6, 2, 3, 0, false);
        code.evex(Simd.UNPCKHPS, BITS, 7, 2, 3, 0, false);
        code.evex(Simd.UNPCKLPD, BITS, 0, 4, 6, 0, false);
        code.evex(Simd.UNPCKHPD, BITS, 1, 4, 6, 0, false);
        code.evex(Simd.UNPCKLPD, BITS, 2, 5, 7, 0, false);
        code.evex(Simd.UNPCKHPD, BITS, 3, 5, 7, 0, false);
        for (int k = 0; k < GROUP; k++) {
            code.evex(Simd.STOREUPS, BITS, k, 0, Address.of(RSI, STEP * k), false, 0, false, 0);
        }
    }
}
