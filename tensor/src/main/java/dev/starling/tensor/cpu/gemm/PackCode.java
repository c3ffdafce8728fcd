package dev.starling.tensor.cpu.gemm;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RBP;
import static dev.starling.tensor.cpu.x86.Assembler.RBX;
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
 * Machine code that copies columns whose elements are contiguous to rows whose elements are: to those of a panel as
 * wide as a tile, or of any matrix.
 */
final class PackCode {
    /** Elements of a vector. */
    static final int LANES = TileCode.VECTOR_BYTES / 4;
    /** Rows that are packed at a time. */
    private static final int GROUP = 4;
    private static final int BITS = TileCode.BITS;
    private static final int R8 = 8;
    private static final int TARGET_STEP = R8;
    private static final int DISTANCE = RAX;
    private static final int SOURCE = 9;
    private static final int TARGET = 10;
    private static final int LEFT = 11;
    private static final int TRIPLE_STRIDE = RBX;
    private static final int LANE_MASKS = 9;
    /** Pointers to each fourth column. */
    private static final int[] POINTERS = BITS == 512 ? new int[] {RDI, RDX, 10, 11} : new int[] {RDI, RDX};
    private static final int STRIDE = RAX;
    /** Vector registers of AVX2: a mask of rows, and columns before they move to the upper half of a register. */
    private static final int ROW_MASK = 9;
    private static final int UPPER = 10;
    /** What selects the columns that exist: a mask register, or with AVX2 a vector. */
    private static final int COLUMN_MASK = BITS == 512 ? 5 : 11;

    private static final int STEP = 4 * TileCode.COLUMNS;

    /**
     * Words of the frame that {@link #assemble}'s code reads: where a matrix begins in source and target, the bytes
     * from column to column of the source, from row to row of the target, and from matrix to matrix of both, the number
     * of rows, and that of matrices. Those at which it begins, and the number of matrices, change.
     */
    static final int FROM = 0;
    static final int TO = 1;
    static final int COLUMN_STRIDE = 2;
    static final int ROW_STRIDE = 3;
    static final int FROM_STEP = 4;
    static final int TO_STEP = 5;
    static final int ROWS = 6;
    static final int MATRICES = 7;
    static final int WORDS = 8;
    private static final int FRAME = RBP;

    private PackCode() { }

    /**
     * Returns the function of a frame for so many columns, at most one vector full. Each 128 bits of a register receive
     * four elements of one column, which are exchanged with those of the next three.
     *
     * @param exact whether nothing is written behind the last column; otherwise every row becomes a full vector
     */
    static MachineCode assemble(int columns, boolean exact) {
        Assembler code = new Assembler();
        code.push(RBX);
        code.push(RBP);
        code.general(General.MOVE, FRAME, RDI);
        code.general(General.MOVE, STRIDE, word(COLUMN_STRIDE));
        code.general(General.LOAD_ADDRESS, TRIPLE_STRIDE, new Address(STRIDE, STRIDE, 2, 0));
        code.general(General.MOVE, TARGET_STEP, word(ROW_STRIDE));
        boolean partial = exact && columns < LANES;
        if (partial && BITS == 512) {
            code.set(LANE_MASKS, (1 << columns) - 1);
            code.vex(Simd.KMOVD, 128, COLUMN_MASK, 0, LANE_MASKS);
        } else if (partial) {
            code.vex(Simd.MOVUPS, BITS, COLUMN_MASK, 0, code.constant(lanes(columns)), 0);
        }
        int matrix = code.label();
        code.bind(matrix);
        matrix(code, columns, partial);
        for (int at : new int[] {FROM, TO}) {
            code.general(General.MOVE, LANE_MASKS, word(at));
            code.general(General.ADD, LANE_MASKS, word(at == FROM ? FROM_STEP : TO_STEP));
            code.store(8, word(at), LANE_MASKS);
        }
        code.general(General.MOVE, RCX, word(MATRICES));
        code.sub(RCX, 1);
        code.store(8, word(MATRICES), RCX);
        code.jump(Condition.NOT_ZERO, matrix);
        code.bytes(0xC5, 0xF8, 0x77);
        code.pop(RBP);
        code.pop(RBX);
        code.bytes(0xC3);
        return MachineCode.required(code);
    }

    private static Address word(int word) {
        return Address.of(FRAME, 8 * word);
    }

    private static void matrix(Assembler code, int columns, boolean partial) {
        int next = code.label();
        int rest = code.label();
        int end = code.label();
        code.general(General.MOVE, POINTERS[0], word(FROM));
        for (int lane = 1; lane < POINTERS.length; lane++) {
            code.general(General.LOAD_ADDRESS, POINTERS[lane], new Address(POINTERS[lane - 1], STRIDE, 4, 0));
        }
        code.general(General.MOVE, RSI, word(TO));
        code.general(General.MOVE, RCX, word(ROWS));
        if (BITS == 512) {
            code.set(LANE_MASKS, (1 << GROUP) - 1);
            masks(code);
        }
        code.sub(RCX, GROUP);
        code.jump(Condition.BELOW, rest);
        code.bind(next);
        group(code, columns, false);
        for (int row = 0; row < GROUP; row++) {
            store(code, row, partial);
        }
        for (int pointer : POINTERS) {
            code.add(pointer, 4 * GROUP);
        }
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
        for (int row = 0; row < GROUP - 1; row++) {
            store(code, row, partial);
            code.sub(RCX, 1);
            code.jump(Condition.ZERO, end);
        }
        code.bind(end);
    }

    /** Stores a row, and moves on to the next one. */
    private static void store(Assembler code, int row, boolean partial) {
        Address to = Address.of(RSI, 0);
        if (!partial) {
            code.vector(Simd.STOREUPS, BITS, row, 0, to);
        } else if (BITS == 512) {
            code.evex(Simd.STOREUPS, BITS, row, 0, to, false, COLUMN_MASK, false, 0);
        } else {
            code.vex(Simd.STOREMASKPS, BITS, row, COLUMN_MASK, to, 0);
        }
        code.general(General.ADD, RSI, TARGET_STEP);
    }

    /** Returns a vector of AVX2 whose first lanes are ones. */
    private static long[] lanes(int count) {
        long[] words = new long[LANES / 2];
        for (int lane = 0; lane < count; lane++) {
            words[lane / 2] |= 0xFFFF_FFFFL << 32 * (lane % 2);
        }
        return words;
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
