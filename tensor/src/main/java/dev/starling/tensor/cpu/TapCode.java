package dev.starling.tensor.cpu;

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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Machine code that adds to the gradient of a kernel with few taps what some rows of pixels contribute: for each pixel
 * it loads a vector of the output's gradient, and multiplies it by each element of the input under the kernel. The sums
 * stay in registers: with AVX-512 those of all taps, with AVX2 those of 14.
 */
final class TapCode {
    private static final int BITS = MachineCode.VECTOR_BITS == 512 ? 512 : 256;
    /** Elements of a vector, which are output channels. */
    static final int LANES = BITS / 32;
    /** Sums that fit into registers, beside the vector of the gradient and, with AVX2, an element of the input. */
    private static final int SUMS_OF_PART = BITS == 512 ? 31 : 14;
    static final int MAX_SUMS = 31;

    /** Words of the frame that the code reads. Steps are in bytes. */
    static final int X = 0;
    static final int G = 1;
    static final int SUMS = 2;
    static final int ROWS = 3;
    static final int COLUMNS = 4;
    static final int X_ROW = 5;
    static final int X_COLUMN = 6;
    static final int G_COLUMN = 7;
    static final int SUMS_ROW = 8;
    static final int WORDS = 9;

    private static final int GRADIENT = SUMS_OF_PART;
    private static final int ELEMENT = 15;
    private static final int ROWS_LEFT = 8;
    private static final int COLUMNS_LEFT = RCX;
    private static final int COLUMN_STEP = 9;
    private static final int ROW_STEP = 10;
    private static final int GRADIENT_STEP = 11;

    private static final Map<Taps, List<MachineCode>> KNOWN = new ConcurrentHashMap<>();

    /**
     * The taps of a kernel: {@code channels * height * width} elements of an image in this order, and with the bias one
     * more, which is always 1. Distances are in bytes.
     */
    record Taps(int channels, int height, int width, int channelStep, int rowStep, int columnStep, boolean bias) {
        int sums() {
            return channels * height * width + (bias ? 1 : 0);
        }
    }

    private TapCode() { }

    /** Returns the functions of a frame, each for some of the sums; empty if there is no more memory for code. */
    static List<MachineCode> of(Taps taps) {
        return KNOWN.computeIfAbsent(taps, TapCode::parts);
    }

    private static List<MachineCode> parts(Taps taps) {
        int parts = Math.ceilDiv(taps.sums(), SUMS_OF_PART);
        List<MachineCode> functions = new ArrayList<>();
        for (int part = 0; part < parts; part++) {
            MachineCode function = assemble(taps, taps.sums() * part / parts, taps.sums() * (part + 1) / parts);
            if (function == null) {
                return List.of();
            }
            functions.add(function);
        }
        return List.copyOf(functions);
    }

    private static Address word(int word) {
        return Address.of(RDI, 8 * word);
    }

    private static @Nullable MachineCode assemble(Taps taps, int from, int to) {
        Assembler code = new Assembler();
        code.general(General.MOVE, RSI, word(X));
        code.general(General.MOVE, RDX, word(G));
        code.general(General.MOVE, ROWS_LEFT, word(ROWS));
        code.general(General.MOVE, COLUMN_STEP, word(X_COLUMN));
        code.general(General.MOVE, ROW_STEP, word(X_ROW));
        code.general(General.MOVE, GRADIENT_STEP, word(G_COLUMN));
        for (int sum = 0; sum < to - from; sum++) {
            code.vector(Simd.PXORD, BITS, sum, sum, sum);
        }
        int row = code.label();
        int column = code.label();
        code.bind(row);
        code.general(General.MOVE, RAX, RSI);
        code.general(General.MOVE, COLUMNS_LEFT, word(COLUMNS));
        code.bind(column);
        pixel(code, taps, from, to);
        code.general(General.ADD, RAX, COLUMN_STEP);
        code.general(General.ADD, RDX, GRADIENT_STEP);
        code.sub(COLUMNS_LEFT, 1);
        code.jump(Condition.NOT_ZERO, column);
        code.general(General.ADD, RSI, ROW_STEP);
        code.sub(ROWS_LEFT, 1);
        code.jump(Condition.NOT_ZERO, row);
        code.general(General.MOVE, RSI, word(SUMS));
        code.general(General.MOVE, RAX, word(SUMS_ROW));
        for (int sum = 0; sum < from; sum++) {
            code.general(General.ADD, RSI, RAX);
        }
        for (int sum = 0; sum < to - from; sum++) {
            code.vector(Simd.ADDPS, BITS, sum, sum, Address.of(RSI, 0));
            code.vector(Simd.STOREUPS, BITS, sum, 0, Address.of(RSI, 0));
            code.general(General.ADD, RSI, RAX);
        }
        code.bytes(0xC5, 0xF8, 0x77, 0xC3);
        return MachineCode.of(code);
    }

    private static void pixel(Assembler code, Taps taps, int from, int to) {
        code.vector(Simd.MOVUPS, BITS, GRADIENT, 0, Address.of(RDX, 0));
        int sum = -from;
        for (int c = 0; c < taps.channels; c++) {
            for (int i = 0; i < taps.height; i++) {
                for (int j = 0; j < taps.width; j++) {
                    if (sum >= 0 && sum < to - from) {
                        int at = c * taps.channelStep + i * taps.rowStep + j * taps.columnStep;
                        add(code, sum, Address.of(RAX, at));
                    }
                    sum++;
                }
            }
        }
        if (taps.bias && sum < to - from) {
            code.vector(Simd.ADDPS, BITS, sum, sum, GRADIENT);
        }
    }

    private static void add(Assembler code, int sum, Address element) {
        if (BITS == 512) {
            code.evex(Simd.FMADD231PS, BITS, sum, GRADIENT, element, true, 0, false, 0);
        } else {
            code.vex(Simd.BROADCASTSS, BITS, ELEMENT, 0, element, 0);
            code.vex(Simd.FMADD231PS, BITS, sum, GRADIENT, ELEMENT);
        }
    }
}
