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
 * Machine code that computes a column of tiles of a product: {@code A B}, {@code A B + C} or with a bias. The sums of a
 * tile stay in registers; for each k the code loads a row of B's panel and repeats an element of each row of A.
 */
final class TileCode {
    /** Bits of a vector: 512 with AVX-512, or 256 with AVX2. */
    static final int BITS = MachineCode.VECTOR_BITS == 512 ? 512 : 256;
    /** Rows of a full tile. */
    static final int ROWS = BITS == 512 ? 12 : 6;
    /** Vectors in a row of a full tile. */
    static final int VECTORS = 2;
    /** Bytes of a vector. */
    static final int VECTOR_BYTES = BITS / 8;
    /** Elements in a row of a full tile. */
    static final int COLUMNS = VECTORS * VECTOR_BYTES / 4;

    /** Words of the frame that the code reads. Strides are in bytes. */
    static final int A = 0;
    static final int B = 1;
    static final int C = 2;
    static final int A_STRIDE = 3;
    static final int B_STRIDE = 4;
    static final int C_STRIDE = 5;
    static final int INNER = 6;
    static final int TILES = 7;
    static final int A_TILE = 8;
    static final int BIAS = 9;
    static final int ADD = 10;
    /** The columns that exist, as bits, for AVX-512. */
    static final int MASKS = 11;
    /**
     * With AVX-512, the next cache line of a matrix that is fetched meanwhile, the lines left in its row, the lines of
     * a row, and the distance from the end of a row to the next one.
     */
    static final int FETCH = 12;
    static final int FETCH_LEFT = 13;
    static final int FETCH_LINES = 14;
    static final int FETCH_GAP = 15;
    /** The columns that exist of the last vector, as lanes of ones, for AVX2. */
    static final int LANE_MASK = 16;
    static final int WORDS = LANE_MASK + VECTOR_BYTES / 8;

    private static final int[] SAVED = {RBX, RBP, 12, 13, 14, 15};
    private static final int STRIDE = RAX;
    private static final int B_STEP = 8;
    private static final int C_STEP = 9;
    private static final int FETCHED = 10;
    private static final int FETCHED_LEFT = RDX;
    private static final int LEFT = 11;
    private static final int POINTER = 12;
    /** Columns of A for which a line is fetched. */
    static final int UNROLLED = 4;
    /** Bytes of a cache line. */
    static final int LINE = 64;
    /** Vector registers for the row of B; the rest repeat elements of A, but one that holds the mask with AVX2. */
    private static final int RIGHT = ROWS * VECTORS;
    private static final int REPEATED = RIGHT + VECTORS;
    private static final int MASK = 15;
    private static final int BIT_MASK = 1;

    private final Assembler code = new Assembler();
    private final int rows;
    private final int vectors;
    private final boolean masked;
    private final boolean columnMajor;

    private TileCode(int rows, int vectors, boolean masked, boolean columnMajor) {
        this.rows = rows;
        this.vectors = vectors;
        this.masked = masked;
        this.columnMajor = columnMajor;
    }

    /**
     * Returns the function of a frame.
     *
     * @param masked whether the last columns of C are left out by the frame's masks
     * @param columnMajor whether A's stride is that between columns, and not between rows
     */
    static MachineCode assemble(int rows, int vectors, boolean masked, boolean columnMajor) {
        TileCode tile = new TileCode(rows, vectors, masked, columnMajor);
        tile.write();
        return MachineCode.required(tile.code);
    }

    private static Address word(int word) {
        return Address.of(RDI, 8 * word);
    }

    private boolean isPartial(int vector) {
        return masked && vector == vectors - 1;
    }

    private void load(int register, Address from, int vector) {
        if (!isPartial(vector)) {
            code.vector(Simd.MOVUPS, BITS, register, 0, from);
        } else if (BITS == 512) {
            code.evex(Simd.MOVUPS, BITS, register, 0, from, false, BIT_MASK, true, 0);
        } else {
            code.vex(Simd.MASKMOVPS, BITS, register, MASK, from, 0);
        }
    }

    private void store(int register, Address to, int vector) {
        if (!isPartial(vector)) {
            code.vector(Simd.STOREUPS, BITS, register, 0, to);
        } else if (BITS == 512) {
            code.evex(Simd.STOREUPS, BITS, register, 0, to, false, BIT_MASK, false, 0);
        } else {
            code.vex(Simd.STOREMASKPS, BITS, register, MASK, to, 0);
        }
    }

    private void write() {
        for (int saved : SAVED) {
            code.push(saved);
        }
        code.general(General.MOVE, RSI, word(A));
        code.general(General.MOVE, RCX, word(C));
        code.general(General.MOVE, STRIDE, word(A_STRIDE));
        code.general(General.MOVE, B_STEP, word(B_STRIDE));
        code.general(General.MOVE, C_STEP, word(C_STRIDE));
        code.general(General.MOVE, FETCHED, word(FETCH));
        code.general(General.MOVE, FETCHED_LEFT, word(FETCH_LEFT));
        code.general(General.MOVE, LEFT, word(TILES));
        if (masked && BITS == 512) {
            code.vex(Simd.KMOVW, 128, BIT_MASK, 0, word(MASKS).plus(2 * (vectors - 1)), 0);
        } else if (masked) {
            code.vex(Simd.MOVUPS, BITS, MASK, 0, word(LANE_MASK), 0);
        }
        int tile = code.label();
        code.bind(tile);
        products();
        results();
        code.general(General.ADD, RSI, word(A_TILE));
        code.sub(LEFT, 1);
        code.jump(Condition.NOT_ZERO, tile);
        code.store(8, word(FETCH), FETCHED);
        code.store(8, word(FETCH_LEFT), FETCHED_LEFT);
        code.bytes(0xC5, 0xF8, 0x77);
        for (int i = SAVED.length - 1; i >= 0; i--) {
            code.pop(SAVED[i]);
        }
        code.bytes(0xC3);
    }

    private int pointers() {
        return columnMajor ? 1 : (rows + 2) / 3;
    }

    private void products() {
        code.general(General.MOVE, POINTER, RSI);
        for (int p = 1; p < pointers(); p++) {
            code.general(General.LOAD_ADDRESS, POINTER + p, new Address(POINTER + p - 1, STRIDE, 2, 0));
            code.general(General.ADD, POINTER + p, STRIDE);
        }
        for (int sum = 0; sum < rows * vectors; sum++) {
            code.vector(Simd.PXORD, BITS, sum, sum, sum);
        }
        code.general(General.MOVE, RBX, RCX);
        for (int row = 0; row < rows; row++) {
            for (int v = 0; v < vectors; v++) {
                code.prefetchWritten(Address.of(RBX, VECTOR_BYTES * v));
            }
            code.general(General.ADD, RBX, C_STEP);
        }
        code.general(General.MOVE, RBX, word(B));
        code.general(General.MOVE, RBP, word(INNER));
        int several = code.label();
        int rest = code.label();
        int single = code.label();
        int end = code.label();
        code.sub(RBP, UNROLLED);
        code.jump(Condition.BELOW, rest);
        code.bind(several);
        if (BITS == 512) {
            fetch();
        }
        steps(UNROLLED);
        code.sub(RBP, UNROLLED);
        code.jump(Condition.ABOVE_OR_EQUAL, several);
        code.bind(rest);
        code.add(RBP, UNROLLED);
        code.jump(Condition.ZERO, end);
        code.bind(single);
        steps(1);
        code.sub(RBP, 1);
        code.jump(Condition.NOT_ZERO, single);
        code.bind(end);
    }

    private void fetch() {
        int inRow = code.label();
        code.prefetch(Address.of(FETCHED, 0));
        code.add(FETCHED, LINE);
        code.sub(FETCHED_LEFT, 1);
        code.jump(Condition.NOT_ZERO, inRow);
        code.general(General.ADD, FETCHED, word(FETCH_GAP));
        code.general(General.MOVE, FETCHED_LEFT, word(FETCH_LINES));
        code.bind(inRow);
    }

    private void steps(int count) {
        for (int k = 0; k < count; k++) {
            for (int v = 0; v < vectors; v++) {
                load(RIGHT + v, Address.of(RBX, VECTOR_BYTES * v), v);
            }
            code.general(General.ADD, RBX, B_STEP);
            for (int row = 0; row < rows; row++) {
                int repeated = repeat(row, left(row, k));
                for (int v = 0; v < vectors; v++) {
                    code.vector(Simd.FMADD231PS, BITS, row * vectors + v, RIGHT + v, repeated);
                }
            }
            if (columnMajor) {
                code.general(General.ADD, POINTER, STRIDE);
            }
        }
        for (int p = 0; !columnMajor && p < pointers(); p++) {
            code.add(POINTER + p, 4 * count);
        }
    }

    /** Repeats an element of A in a vector register, which it returns. */
    private int repeat(int row, Address element) {
        if (BITS == 512) {
            int register = REPEATED + row % (32 - REPEATED);
            code.evex(Simd.BROADCASTSS, BITS, register, 0, element, false, 0, false, 0);
            return register;
        }
        int register = masked ? REPEATED : REPEATED + row % (16 - REPEATED);
        code.vex(Simd.BROADCASTSS, BITS, register, 0, element, 0);
        return register;
    }

    private Address left(int row, int k) {
        if (columnMajor) {
            return Address.of(POINTER, 4 * row);
        }
        int pointer = POINTER + row / 3;
        return row % 3 == 0 ? Address.of(pointer, 4 * k) : new Address(pointer, STRIDE, row % 3, 4 * k);
    }

    private void results() {
        int plain = code.label();
        int store = code.label();
        code.general(General.MOVE, RBP, word(BIAS));
        code.general(General.TEST, RBP, RBP);
        code.jump(Condition.ZERO, plain);
        for (int v = 0; v < vectors; v++) {
            load(RIGHT + v, Address.of(RBP, VECTOR_BYTES * v), v);
        }
        for (int sum = 0; sum < rows * vectors; sum++) {
            code.vector(Simd.ADDPS, BITS, sum, sum, RIGHT + sum % vectors);
        }
        code.bind(plain);
        code.general(General.MOVE, RBP, word(ADD));
        code.general(General.TEST, RBP, RBP);
        code.jump(Condition.ZERO, store);
        code.general(General.MOVE, RBX, RCX);
        for (int row = 0; row < rows; row++) {
            for (int v = 0; v < vectors; v++) {
                int sum = row * vectors + v;
                load(RIGHT + v, Address.of(RBX, VECTOR_BYTES * v), v);
                code.vector(Simd.ADDPS, BITS, sum, sum, RIGHT + v);
            }
            code.general(General.ADD, RBX, C_STEP);
        }
        code.bind(store);
        for (int row = 0; row < rows; row++) {
            for (int v = 0; v < vectors; v++) {
                store(row * vectors + v, Address.of(RCX, VECTOR_BYTES * v), v);
            }
            code.general(General.ADD, RCX, C_STEP);
        }
    }
}
