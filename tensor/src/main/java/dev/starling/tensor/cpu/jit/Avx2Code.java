package dev.starling.tensor.cpu.jit;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.Simd;
import java.util.Objects;

/**
 * Machine code for AVX2 and FMA. A vector has 8 elements of 4 bytes, or 4 in loops with a lane of 8 bytes. Bools are
 * vectors with all bits of an element set or none, as wide as the lanes that were compared. The last elements of a row
 * pass through buffers. Integers of 8 bytes are neither converted from nor to floats.
 */
final class Avx2Code implements VectorCode {
    private static final int EQUAL = 0;
    private static final int LESS = 0x11;
    private static final int LESS_OR_EQUAL = 0x12;
    private static final int NOT_EQUAL = 4;
    private static final int UNORDERED = 3;
    /** Every second element of 4 bytes of two vectors. */
    private static final int EVEN = 0x88;
    private static final int UPPER_PAIR = 0xEE;
    private static final int SECOND = 0x55;
    private static final long LOW_BYTES = 0x808080800C080400L;
    private static final long LOW_WORDS = 0x0D0C090805040100L;
    private static final long NOTHING = 0x8080808080808080L;

    private final Assembler code;
    private final LoopBody body;
    private final int width;

    Avx2Code(Assembler code, LoopBody body) {
        this.code = code;
        this.body = body;
        width = NativeKernel.width(body, 256);
    }

    /** Returns whether there is machine code for a primitive whose first operand is in the lane {@code a}. */
    static boolean supports(Node node, Lane a) {
        return switch (node.primitive()) {
            case CONVERT -> a.isFloating() == node.lane().isFloating() || a != Lane.I64 && node.lane() != Lane.I64;
            case SAR -> a != Lane.I64;
            default -> true;
        };
    }

    @Override
    public int width() {
        return width;
    }

    @Override
    public int vectorBytes() {
        return 32;
    }

    @Override
    public int firstRegister() {
        return C + 1;
    }

    @Override
    public int registers() {
        return 16;
    }

    @Override
    public int firstMask() {
        return 0;
    }

    @Override
    public int masks() {
        return 0;
    }

    @Override
    public boolean repeatsElements() {
        return false;
    }

    @Override
    public boolean masksLast() {
        return false;
    }

    @Override
    public void limit(int count) { }

    private int bits(Lane lane) {
        return width * lane.bytes * 8;
    }

    /** Returns the lane, I32 or I64, in which a bool is held. */
    private Lane mask(int value) {
        Node node = body.nodes().get(value);
        return switch (node.primitive()) {
            case EQ, NE, LT, LE -> body.lane(node.a()).bytes == 8 ? Lane.I64 : Lane.I32;
            case AND, OR, XOR, NOT -> mask(node.a());
            case SELECT -> mask(node.b());
            default -> Lane.I32;
        };
    }

    private void emit(Simd op, int bits, int target, int a, Operand b, int after) {
        if (b.isMemory()) {
            code.vex(op, bits, target, a, Objects.requireNonNull(b.memory()), after);
        } else {
            code.vex(op, bits, target, a, b.register());
        }
    }

    @Override
    public void emit(Simd op, Lane lane, int target, int a, Operand b) {
        emit(op, bits(lane), target, a, b, 0);
    }

    private void emit(Simd op, Lane lane, int target, int a, int b) {
        code.vex(op, bits(lane), target, a, b);
    }

    private void emit(Simd op, Lane lane, int target, int a, Operand b, int immediate) {
        emit(op, bits(lane), target, a, b, 1);
        code.bytes(immediate);
    }

    private Operand constant(long word) {
        return Operand.memory(code.constant(word, word, word, word), false);
    }

    private Operand constant(Lane lane, long bits) {
        return constant(lane.bytes == 4 ? bits << 32 | bits & 0xFFFFFFFFL : bits);
    }

    @Override
    public void load(DType type, Address address, int target, boolean last) {
        int bits = bits(Lane.of(type));
        switch (type) {
            case F32, I32 -> code.vex(Simd.MOVUPS, bits, target, 0, address, 0);
            case F64, I64 -> code.vex(Simd.MOVUPD, bits, target, 0, address, 0);
            case I8 -> code.vex(Simd.PMOVSXBD, bits, target, 0, address, 0);
            case U8 -> code.vex(Simd.PMOVZXBD, bits, target, 0, address, 0);
            case BF16, F16 -> code.vex(Simd.PMOVSXWD, bits, target, 0, address, 0);
            case BOOL -> {
                code.vex(Simd.PMOVZXBD, bits, A, 0, address, 0);
                code.vex(Simd.PXORD, bits, B, B, B);
                code.vex(Simd.PCMPGTD, bits, target, A, B);
            }
        }
    }

    @Override
    public void store(DType type, int value, Address address, Operand operand, boolean last) {
        Lane lane = Lane.of(type);
        int source = lane == Lane.BOOL ? mask(value, operand, Lane.I32, A) : vector(lane, operand, A);
        switch (type) {
            case F64, I64 -> code.vex(Simd.STOREUPD, 256, source, 0, address, 0);
            case F32, I32 -> code.vex(Simd.STOREUPS, bits(lane), source, 0, address, 0);
            case BOOL -> {
                emit(Simd.PANDD, Lane.I32, A, source, constant(Lane.I32, 1));
                storeBytes(A, address);
            }
            case I8, U8 -> storeBytes(source, address);
            case BF16, F16 -> {
                narrow(source, LOW_WORDS);
                if (width == 8) {
                    code.vex(Simd.PUNPCKLQDQ, 128, A, A, B);
                    code.vex(Simd.STOREUPS, 128, A, 0, address, 0);
                } else {
                    code.vex(Simd.STOREQ, 128, A, 0, address, 0);
                }
            }
        }
    }

    private void storeBytes(int source, Address address) {
        narrow(source, LOW_BYTES);
        if (width == 8) {
            code.vex(Simd.PUNPCKLDQ, 128, A, A, B);
            code.vex(Simd.STOREQ, 128, A, 0, address, 0);
        } else {
            code.vex(Simd.STORED, 128, A, 0, address, 0);
        }
    }

    /** Leaves the low parts of the elements adjacent, of the lower half in A and of the upper half in B. */
    private void narrow(int source, long places) {
        emit(Simd.PSHUFB, Lane.I32, A, source,
                Operand.memory(code.constant(places, NOTHING, places, NOTHING), false));
        if (width == 8) {
            code.vex(Simd.EXTRACTF128, 256, A, 0, B);
            code.bytes(1);
        }
    }

    @Override
    public void move(Lane lane, int target, Operand value) {
        boolean wide = lane.bytes == 8;
        if (value.isMemory()) {
            Simd op = value.repeated() ? wide ? Simd.BROADCASTSD_AVX : Simd.BROADCASTSS
                    : lane == Lane.BOOL ? Simd.MOVUPS : wide ? Simd.MOVUPD : Simd.MOVUPS;
            code.vex(op, lane == Lane.BOOL ? 256 : bits(lane), target, 0, Objects.requireNonNull(value.memory()), 0);
        } else if (value.register() != target) {
            code.vex(Simd.MOVAPS, 256, target, 0, value.register());
        }
    }

    /** The mask is read from a table of bits that are set, followed by zeros. */
    @Override
    public void moveLast(int target, Operand value) {
        code.set(RAX, width);
        code.general(Assembler.General.SUB, RAX, Assembler.RDX);
        code.general(Assembler.General.LOAD_ADDRESS, NativeFrame.INDEX,
                code.constant(-1, -1, -1, -1, 0, 0, 0, 0));
        code.vex(Simd.MOVUPS, bits(Lane.F32), A, 0, new Address(NativeFrame.INDEX, RAX, 4, 4 * (8 - width)), 0);
        blend(Lane.F32, target, target, value, A);
    }

    @Override
    public void moveUpper(int bits, int target, int source) {
        if (bits == 256) {
            code.vex(Simd.EXTRACTF128, 256, source, 0, target);
            code.bytes(1);
        } else {
            code.vex(Simd.SHUFPS, 128, target, source, source);
            code.bytes(bits == 128 ? UPPER_PAIR : SECOND);
        }
    }

    @Override
    public void storeFirst(Address address, int register) {
        code.vex(Simd.STORESS, 128, register, 0, address, 0);
    }

    @Override
    public void spill(Lane lane, Address address, int register) {
        code.vex(Simd.STOREUPS, 256, register, 0, address, 0);
    }

    /** Returns a register with a bool of {@code value} in the lane {@code to}; {@code spare} if it is another one. */
    private int mask(int value, Operand bool, Lane to, int spare) {
        Lane from = mask(value);
        int source = vector(Lane.BOOL, bool, spare);
        if (from == to) {
            return source;
        }
        if (to == Lane.I64) {
            code.vex(Simd.PMOVSXDQ, 256, spare, 0, source);
        } else {
            halve(source, spare);
        }
        return spare;
    }

    /** Packs the low halves of elements of 8 bytes; overwrites C. */
    private void halve(int source, int target) {
        code.vex(Simd.EXTRACTF128, 256, source, 0, C);
        code.bytes(1);
        code.vex(Simd.SHUFPS, 128, target, source, C);
        code.bytes(EVEN);
    }

    @Override
    public void jumpIfAny(int value, Operand bool, int label) {
        boolean wide = mask(value) == Lane.I64;
        code.vex(wide ? Simd.MOVMSKPD : Simd.MOVMSKPS, bits(mask(value)), RAX, 0, vector(Lane.BOOL, bool, A));
        code.general(Assembler.General.TEST, RAX, RAX);
        code.jump(Assembler.Condition.NOT_ZERO, label);
    }

    @Override
    public void apply(Node node, Lane lane, int target, Operand a, Operand b, Operand c) {
        boolean wide = lane.bytes == 8;
        switch (node.primitive()) {
            case ADD -> binary(lane, target, a, b, true, Simd.ADDPS, Simd.ADDPD, Simd.PADDD, Simd.PADDQ);
            case SUB -> binary(lane, target, a, b, false, Simd.SUBPS, Simd.SUBPD, Simd.PSUBD, Simd.PSUBQ);
            case MUL -> {
                if (lane == Lane.I64) {
                    multiplyLong(target, a, b);
                } else {
                    binary(lane, target, a, b, true, Simd.MULPS, Simd.MULPD, Simd.PMULLD, Simd.PMULLD);
                }
            }
            case DIV -> emit(wide ? Simd.DIVPD : Simd.DIVPS, lane, target, vector(lane, a, A), b);
            case FMA -> fma(lane, target, a, b, c);
            case MIN, MAX -> extreme(node.primitive() == Primitive.MAX, lane, target, a, b);
            case SQRT -> emit(wide ? Simd.SQRTPD : Simd.SQRTPS, lane, target, 0, a);
            case NEG, ABS -> sign(node.primitive() == Primitive.NEG, lane, target, a);
            case AND, OR, XOR, NOT -> logic(node, lane, target, a, b);
            case SHL -> shift(wide ? Simd.PSHIFTQ : Simd.PSHIFTD, 6, node, lane, target, a);
            case SAR -> shift(Simd.PSHIFTD, 4, node, lane, target, a);
            case SHR -> shift(wide ? Simd.PSHIFTQ : Simd.PSHIFTD, 2, node, lane, target, a);
            case EQ, NE, LT, LE -> compare(node.primitive(), lane, target, a, b);
            case SELECT -> select(node, target, a, b, c);
            case CONVERT -> convert(lane, node.lane(), target, a);
            default -> throw new IllegalArgumentException(node.toString());
        }
    }

    /** The product of the low halves, and 2^32 times the sum of those of a low and a high half. */
    private void multiplyLong(int target, Operand first, Operand second) {
        int a = vector(Lane.I64, first, C);
        Operand b = second;
        shift(Simd.PSHIFTQ, 2, B, vector(Lane.I64, b, B), 32);
        emit(Simd.PMULUDQ, Lane.I64, B, B, a);
        shift(Simd.PSHIFTQ, 2, A, a, 32);
        emit(Simd.PMULUDQ, Lane.I64, A, A, b);
        emit(Simd.PADDQ, Lane.I64, B, B, A);
        shift(Simd.PSHIFTQ, 6, B, B, 32);
        emit(Simd.PMULUDQ, Lane.I64, A, a, b);
        emit(Simd.PADDQ, Lane.I64, target, A, B);
    }

    private void shift(Simd op, int field, int target, int source, int by) {
        code.vex(op, 256, field, target, source);
        code.bytes(by);
    }

    private void shift(Simd op, int field, Node node, Lane lane, int target, Operand a) {
        code.vex(op, bits(lane), field, target, vector(lane, a, A));
        code.bytes((int) node.immediate());
    }

    /** As in Java; see {@link Avx512Code}. Where the results are not ordered, all bits make a NaN. */
    private void extreme(boolean max, Lane lane, int target, Operand first, Operand second) {
        boolean wide = lane.bytes == 8;
        if (lane == Lane.I32) {
            binary(lane, target, first, second, true, Simd.PMINSD, Simd.PMINSD, max ? Simd.PMAXSD : Simd.PMINSD,
                    Simd.PMINSD);
            return;
        }
        int a = vector(lane, first, C);
        int b = vector(lane, second, A);
        if (lane == Lane.I64) {
            emit(Simd.PCMPGTQ, lane, B, max ? b : a, max ? a : b);
            blend(lane, target, a, Operand.register(b), B);
            return;
        }
        Simd op = max ? wide ? Simd.MAXPD : Simd.MAXPS : wide ? Simd.MINPD : Simd.MINPS;
        emit(op, lane, B, a, b);
        emit(op, lane, A, b, a);
        if (max) {
            emit(wide ? Simd.CMPPD : Simd.CMPPS, lane, C, A, Operand.register(B), UNORDERED);
            emit(Simd.PANDD, lane, B, A, B);
            emit(Simd.PORD, lane, target, B, C);
        } else {
            emit(Simd.PORD, lane, target, A, B);
        }
    }

    private void sign(boolean negates, Lane lane, int target, Operand a) {
        boolean wide = lane.bytes == 8;
        if (lane.isFloating()) {
            long sign = wide ? Long.MIN_VALUE : Integer.MIN_VALUE;
            emit(negates ? Simd.PXORD : Simd.PANDD, lane, target, vector(lane, a, A),
                    constant(lane, negates ? sign : ~sign));
        } else if (negates) {
            emit(Simd.PXORD, lane, A, A, A);
            emit(wide ? Simd.PSUBQ : Simd.PSUBD, lane, target, A, a);
        } else if (wide) {
            int value = vector(lane, a, B);
            emit(Simd.PXORD, lane, A, A, A);
            emit(Simd.PCMPGTQ, lane, A, A, value);
            emit(Simd.PXORD, lane, B, value, A);
            emit(Simd.PSUBQ, lane, target, B, A);
        } else {
            emit(Simd.PABSD, lane, target, 0, a);
        }
    }

    private void logic(Node node, Lane lane, int target, Operand first, Operand second) {
        Operand a = first;
        Operand b = second;
        Lane held = lane;
        if (lane == Lane.BOOL) {
            held = mask(node.a());
            if (node.primitive() != Primitive.NOT && mask(node.b()) != held) {
                b = Operand.register(mask(node.b(), b, held, B));
            }
        }
        switch (node.primitive()) {
            case AND -> binary(held, target, a, b, true, Simd.PANDD, Simd.PANDD, Simd.PANDD, Simd.PANDD);
            case OR -> binary(held, target, a, b, true, Simd.PORD, Simd.PORD, Simd.PORD, Simd.PORD);
            case XOR -> binary(held, target, a, b, true, Simd.PXORD, Simd.PXORD, Simd.PXORD, Simd.PXORD);
            default -> emit(Simd.PXORD, held, target, vector(held, a, A), constant(-1));
        }
    }

    private void compare(Primitive primitive, Lane lane, int target, Operand a, Operand b) {
        boolean wide = lane.bytes == 8;
        if (lane.isFloating()) {
            emit(wide ? Simd.CMPPD : Simd.CMPPS, lane, target, vector(lane, a, A), b, switch (primitive) {
                case EQ -> EQUAL;
                case NE -> NOT_EQUAL;
                case LT -> LESS;
                default -> LESS_OR_EQUAL;
            });
            return;
        }
        Simd greater = wide ? Simd.PCMPGTQ : Simd.PCMPGTD;
        Simd equal = wide ? Simd.PCMPEQQ : Simd.PCMPEQD;
        switch (primitive) {
            case EQ -> emit(equal, lane, target, vector(lane, a, A), b);
            case LT -> emit(greater, lane, target, vector(lane, b, A), a);
            default -> {
                emit(primitive == Primitive.NE ? equal : greater, lane, A, vector(lane, a, A), b);
                emit(Simd.PXORD, lane, target, A, constant(-1));
            }
        }
    }

    /** {@code target = mask ? chosen : otherwise}. */
    private void blend(Lane lane, int target, int otherwise, Operand chosen, int mask) {
        emit(lane.bytes == 8 ? Simd.BLENDVPD : Simd.BLENDVPS, lane, target, otherwise, chosen, mask << 4);
    }

    private void select(Node node, int target, Operand condition, Operand a, Operand b) {
        boolean bools = node.lane() == Lane.BOOL;
        Lane lane = bools ? mask(node.b()) : node.lane();
        int mask = mask(node.a(), condition, lane.bytes == 8 ? Lane.I64 : Lane.I32, A);
        int otherwise = bools ? mask(node.c(), b, lane, B) : vector(lane, b, B);
        blend(lane, target, otherwise, a, mask);
    }

    private void convert(Lane from, Lane to, int target, Operand a) {
        Lane wide = from.bytes == 8 ? from : to;
        switch (from) {
            case F32 -> emit(Simd.CVTPS2PD, wide, target, 0, a);
            case F64 -> emit(Simd.CVTPD2PS, wide, target, 0, a);
            case I32 -> emit(to == Lane.F32 ? Simd.CVTDQ2PS : to == Lane.F64 ? Simd.CVTDQ2PD : Simd.PMOVSXDQ, wide,
                    target, 0, a);
            case I64 -> halve(vector(from, a, A), target);
            case BOOL -> throw new IllegalArgumentException("a bool is selected, not converted");
        }
    }
}
