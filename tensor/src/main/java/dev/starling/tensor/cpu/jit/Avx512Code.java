package dev.starling.tensor.cpu.jit;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RCX;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.Simd;
import java.util.Objects;

/**
 * Machine code for AVX-512. A vector has 16 elements of 4 bytes, or 8 in loops with a lane of 8 bytes. Bools are mask
 * registers. The last elements of a row are loaded and stored under a mask.
 */
final class Avx512Code implements VectorCode {
    /** The mask of a row's last elements. */
    private static final int LAST = 1;
    private static final int MASK = 2;
    private static final int OTHER_MASK = 7;
    private static final int FIRST_MASK = 3;
    private static final int EQUAL = 0;
    private static final int LESS = 0x11;
    private static final int LESS_OR_EQUAL = 0x12;
    private static final int NOT_EQUAL = 4;
    private static final int UNORDERED = 3;
    private static final int ORDERED = 7;
    private static final int GREATER_OR_EQUAL = 0x1D;
    private static final int UPPER_PAIR = 0xEE;
    private static final int SECOND = 0x55;

    private final Assembler code;
    private final int width;

    Avx512Code(Assembler code, int width) {
        this.code = code;
        this.width = width;
    }

    @Override
    public int width() {
        return width;
    }

    @Override
    public int vectorBytes() {
        return 64;
    }

    @Override
    public int firstRegister() {
        return C + 1;
    }

    @Override
    public int registers() {
        return 32;
    }

    @Override
    public int firstMask() {
        return FIRST_MASK;
    }

    @Override
    public int masks() {
        return OTHER_MASK;
    }

    @Override
    public boolean repeatsElements() {
        return true;
    }

    /** The width in bits of a vector of lanes. */
    private int bits(Lane lane) {
        return width * lane.bytes * 8;
    }

    @Override
    public boolean masksLast() {
        return true;
    }

    @Override
    public void limit(int count) {
        code.general(Assembler.General.MOVE, RCX, count);
        code.and(RCX, width - 1);
        code.set(RAX, 1);
        code.shiftLeft(RAX);
        code.add(RAX, -1);
        code.vex(Simd.KMOVD, 128, LAST, 0, RAX);
    }

    private void load(Simd op, int bits, int target, Address address, int mask) {
        code.evex(op, bits, target, 0, address, false, mask, mask != 0, 0);
    }

    @Override
    public void load(DType type, Address address, int target, boolean last) {
        int mask = last ? LAST : 0;
        int bits = bits(Lane.of(type));
        switch (type) {
            case F32, I32 -> load(Simd.MOVUPS, bits, target, address, mask);
            case F64, I64 -> load(Simd.MOVUPD, bits, target, address, mask);
            case I8 -> load(Simd.PMOVSXBD, bits, target, address, mask);
            case U8 -> load(Simd.PMOVZXBD, bits, target, address, mask);
            case BF16, F16 -> load(Simd.PMOVSXWD, bits, target, address, mask);
            case BOOL -> {
                if (last || width == 16) {
                    load(Simd.MOVDQU8, 128, A, address, mask);
                } else {
                    load(Simd.MOVQ, 128, A, address, 0);
                }
                code.evex(Simd.PTESTMB, 128, target, A, A, 0, false);
            }
        }
    }

    private void store(Simd op, int bits, int source, Address address, int mask) {
        code.evex(op, bits, source, 0, address, false, mask, false, 0);
    }

    @Override
    public void store(DType type, int number, Address address, Operand value, boolean last) {
        int mask = last ? LAST : 0;
        Lane lane = Lane.of(type);
        int bits = bits(lane);
        if (type == DType.BOOL) {
            int bools = mask(value, MASK);
            code.evex(Simd.MOVDQU8, 128, A, 0, code.constant(0x0101010101010101L, 0x0101010101010101L), false, bools,
                    true, 0);
            store(last || width == 16 ? Simd.STOREDQU8 : Simd.STOREQ, 128, A, address, mask);
            return;
        }
        int source = vector(lane, value, A);
        switch (type) {
            case F64, I64 -> store(Simd.STOREUPD, bits, source, address, mask);
            case I8, U8 -> store(Simd.PMOVDB, bits, source, address, mask);
            case BF16, F16 -> store(Simd.PMOVDW, bits, source, address, mask);
            default -> store(Simd.STOREUPS, bits, source, address, mask);
        }
    }

    /** Returns the mask register that holds a bool; one in memory is loaded into {@code spare}. */
    private int mask(Operand bool, int spare) {
        if (bool.isMemory()) {
            code.vex(Simd.KMOVQ, 128, spare, 0, Objects.requireNonNull(bool.memory()), 0);
            return spare;
        }
        return bool.register();
    }

    @Override
    public void move(Lane lane, int target, Operand value) {
        boolean wide = lane.bytes == 8;
        if (lane == Lane.BOOL) {
            int source = mask(value, target);
            if (source != target) {
                code.vex(Simd.KMOVW, 128, target, 0, source);
            }
        } else if (!value.isMemory()) {
            if (value.register() != target) {
                code.evex(Simd.MOVAPS, bits(lane), target, 0, value.register(), 0, false);
            }
        } else {
            Simd op = value.repeated() ? wide ? Simd.BROADCASTSD : Simd.BROADCASTSS
                    : wide ? Simd.MOVUPD : Simd.MOVUPS;
            load(op, bits(lane), target, Objects.requireNonNull(value.memory()), 0);
        }
    }

    @Override
    public void moveLast(int target, Operand value) {
        code.evex(Simd.MOVAPS, bits(Lane.F32), target, 0, vector(Lane.F32, value, A), LAST, false);
    }

    @Override
    public void moveUpper(int bits, int target, int source) {
        switch (bits) {
            case 512 -> code.evex(Simd.EXTRACTF64X4, 512, source, 0, target, 0, false);
            case 256 -> code.evex(Simd.EXTRACTF32X4, 256, source, 0, target, 0, false);
            default -> code.evex(Simd.SHUFPS, 128, target, source, source, 0, false);
        }
        code.bytes(bits >= 256 ? 1 : bits == 128 ? UPPER_PAIR : SECOND);
    }

    @Override
    public void storeFirst(Address address, int register) {
        store(Simd.STORESS, 128, register, address, 0);
    }

    @Override
    public void spill(Lane lane, Address address, int register) {
        if (lane == Lane.BOOL) {
            code.vex(Simd.STOREKQ, 128, register, 0, address, 0);
        } else {
            store(lane.bytes == 8 ? Simd.STOREUPD : Simd.STOREUPS, bits(lane), register, address, 0);
        }
    }

    @Override
    public void jumpIfAny(int value, Operand bool, int label) {
        int mask = mask(bool, MASK);
        code.vex(width == 16 ? Simd.KORTESTW : Simd.KORTESTB, 128, mask, 0, mask);
        code.jump(Assembler.Condition.NOT_ZERO, label);
    }

    @Override
    public void emit(Simd op, Lane lane, int target, int a, Operand b) {
        emit(op, lane, target, a, b, 0, false, 0);
    }

    private void emit(Simd op, Lane lane, int target, int a, Operand b, int mask, boolean zeroes, int after) {
        if (b.isMemory()) {
            code.evex(op, bits(lane), target, a, Objects.requireNonNull(b.memory()), b.repeated(), mask, zeroes,
                    after);
        } else {
            code.evex(op, bits(lane), target, a, b.register(), mask, zeroes);
        }
    }

    private void compare(Simd op, Lane lane, int target, int a, Operand b, int predicate) {
        emit(op, lane, target, a, b, 0, false, 1);
        code.bytes(predicate);
    }

    private Operand constant(Lane lane, long bits) {
        return Operand.memory(code.constant(lane.bytes == 4 ? bits << 32 | bits & 0xFFFFFFFFL : bits), true);
    }

    @Override
    public void apply(Node node, Lane lane, int target, Operand a, Operand b, Operand c) {
        boolean wide = lane.bytes == 8;
        switch (node.primitive()) {
            case ADD -> binary(lane, target, a, b, true, Simd.ADDPS, Simd.ADDPD, Simd.PADDD, Simd.PADDQ);
            case SUB -> binary(lane, target, a, b, false, Simd.SUBPS, Simd.SUBPD, Simd.PSUBD, Simd.PSUBQ);
            case MUL -> binary(lane, target, a, b, true, Simd.MULPS, Simd.MULPD, Simd.PMULLD, Simd.PMULLQ);
            case DIV -> emit(wide ? Simd.DIVPD : Simd.DIVPS, lane, target, vector(lane, a, A), b);
            case FMA -> fma(lane, target, a, b, c);
            case MIN, MAX -> extreme(node.primitive() == Primitive.MAX, lane, target, a, b);
            case SQRT -> emit(wide ? Simd.SQRTPD : Simd.SQRTPS, lane, target, 0, a);
            case NEG, ABS -> sign(node.primitive() == Primitive.NEG, lane, target, a);
            case AND, OR, XOR, NOT -> logic(node, lane, target, a, b);
            case SHL -> shift(wide ? Simd.PSHIFTQ : Simd.PSHIFTD, 6, node, lane, target, a);
            case SAR -> shift(wide ? Simd.PSRAQ : Simd.PSHIFTD, 4, node, lane, target, a);
            case SHR -> shift(wide ? Simd.PSHIFTQ : Simd.PSHIFTD, 2, node, lane, target, a);
            case EQ, NE, LT, LE -> compare(node.primitive(), lane, target, a, b);
            case SELECT -> select(node.lane(), target, a, b, c);
            case CONVERT -> convert(lane, node.lane(), target, a);
            default -> throw new IllegalArgumentException(node.toString());
        }
    }

    /**
     * As in Java: NaN wins, and -0 is below 0. The instructions return their second operand where either is NaN or both
     * are 0; both orders are combined.
     */
    private void extreme(boolean max, Lane lane, int target, Operand first, Operand second) {
        if (!lane.isFloating()) {
            binary(lane, target, first, second, true, Simd.PMINSD, Simd.PMINSD, max ? Simd.PMAXSD : Simd.PMINSD,
                    max ? Simd.PMAXSQ : Simd.PMINSQ);
            return;
        }
        boolean wide = lane.bytes == 8;
        Simd op = max ? wide ? Simd.MAXPD : Simd.MAXPS : wide ? Simd.MINPD : Simd.MINPS;
        int a = vector(lane, first, C);
        Operand b = Operand.register(vector(lane, second, A));
        emit(op, lane, B, a, b);
        emit(op, lane, A, b.register(), Operand.register(a));
        if (max) {
            compare(wide ? Simd.CMPPD : Simd.CMPPS, lane, MASK, A, Operand.register(B), UNORDERED);
        }
        Simd join = max ? wide ? Simd.PANDQ : Simd.PANDD : wide ? Simd.PORQ : Simd.PORD;
        emit(join, lane, max ? A : target, A, Operand.register(B));
        if (max) {
            long nan = wide ? Double.doubleToRawLongBits(Double.NaN) : Float.floatToRawIntBits(Float.NaN);
            emit(wide ? Simd.BLENDMPD : Simd.BLENDMPS, lane, target, A, constant(lane, nan), MASK, false, 0);
        }
    }

    private void sign(boolean negates, Lane lane, int target, Operand a) {
        boolean wide = lane.bytes == 8;
        if (lane.isFloating()) {
            long sign = wide ? Long.MIN_VALUE : Integer.MIN_VALUE;
            int value = vector(lane, a, A);
            emit(negates ? wide ? Simd.PXORQ : Simd.PXORD : wide ? Simd.PANDQ : Simd.PANDD, lane, target, value,
                    constant(lane, negates ? sign : ~sign));
        } else if (negates) {
            emit(Simd.PXORD, Lane.I32, A, A, Operand.register(A));
            emit(wide ? Simd.PSUBQ : Simd.PSUBD, lane, target, A, a);
        } else {
            emit(wide ? Simd.PABSQ : Simd.PABSD, lane, target, 0, a);
        }
    }

    private void logic(Node node, Lane lane, int target, Operand a, Operand b) {
        if (lane != Lane.BOOL) {
            switch (node.primitive()) {
                case AND -> binary(lane, target, a, b, true, Simd.PANDD, Simd.PANDQ, Simd.PANDD, Simd.PANDQ);
                case OR -> binary(lane, target, a, b, true, Simd.PORD, Simd.PORQ, Simd.PORD, Simd.PORQ);
                case XOR -> binary(lane, target, a, b, true, Simd.PXORD, Simd.PXORQ, Simd.PXORD, Simd.PXORQ);
                default -> emit(lane.bytes == 8 ? Simd.PXORQ : Simd.PXORD, lane, target, vector(lane, a, A),
                        constant(lane, -1));
            }
            return;
        }
        int first = mask(a, MASK);
        switch (node.primitive()) {
            case AND -> code.vex(Simd.KANDW, 256, target, first, mask(b, OTHER_MASK));
            case OR -> code.vex(Simd.KORW, 256, target, first, mask(b, OTHER_MASK));
            case XOR -> code.vex(Simd.KXORW, 256, target, first, mask(b, OTHER_MASK));
            default -> code.vex(Simd.KNOTW, 128, target, 0, first);
        }
    }

    private void shift(Simd op, int field, Node node, Lane lane, int target, Operand a) {
        if (a.isMemory()) {
            code.evex(op, bits(lane), field, target, Objects.requireNonNull(a.memory()), a.repeated(), 0, false, 1);
        } else {
            code.evex(op, bits(lane), field, target, a.register(), 0, false);
        }
        code.bytes((int) node.immediate());
    }

    private void compare(Primitive primitive, Lane lane, int target, Operand a, Operand b) {
        int predicate = switch (primitive) {
            case EQ -> EQUAL;
            case NE -> NOT_EQUAL;
            case LT -> LESS;
            default -> LESS_OR_EQUAL;
        };
        Simd op = VectorCode.pick(lane, Simd.CMPPS, Simd.CMPPD, Simd.PCMPD, Simd.PCMPQ);
        compare(op, lane, target, vector(lane, a, A), b, lane.isFloating() ? predicate : predicate & 7);
    }

    private void select(Lane lane, int target, Operand condition, Operand a, Operand b) {
        int mask = mask(condition, MASK);
        if (lane != Lane.BOOL) {
            emit(lane.bytes == 8 ? Simd.BLENDMPD : Simd.BLENDMPS, lane, target, vector(lane, b, A), a, mask, false, 0);
            return;
        }
        code.vex(Simd.KANDNW, 256, OTHER_MASK, mask, mask(b, OTHER_MASK));
        code.vex(Simd.KANDW, 256, MASK, mask, mask(a, 0));
        code.vex(Simd.KORW, 256, target, MASK, OTHER_MASK);
    }

    private void convert(Lane from, Lane to, int target, Operand a) {
        Lane wide = from.bytes == 8 ? from : to;
        switch (from) {
            case F32 -> {
                if (to == Lane.F64) {
                    emit(Simd.CVTPS2PD, wide, target, 0, a);
                } else {
                    toLong(from, target, a);
                }
            }
            case F64 -> {
                if (to == Lane.F32) {
                    emit(Simd.CVTPD2PS, wide, target, 0, a);
                } else {
                    toLong(from, target, a);
                }
            }
            case I32 -> emit(to == Lane.F32 ? Simd.CVTDQ2PS : to == Lane.F64 ? Simd.CVTDQ2PD : Simd.PMOVSXDQ, wide,
                    target, 0, widened(a));
            case I64 -> {
                if (to == Lane.I32) {
                    code.evex(Simd.PMOVQD, 512, vector(from, a, A), 0, target, 0, false);
                } else {
                    emit(to == Lane.F32 ? Simd.CVTQQ2PS : Simd.CVTQQ2PD, wide, target, 0, a);
                }
            }
            case BOOL -> throw new IllegalArgumentException("a bool is selected, not converted");
        }
    }

    /** The integer instruction that widens repeats no element from memory. */
    private Operand widened(Operand a) {
        return a.repeated() ? Operand.register(vector(Lane.I32, a, A)) : a;
    }

    /** As Java's cast: NaN gives 0, and what is beyond the range its end. */
    private void toLong(Lane from, int target, Operand a) {
        int value = vector(from, a, A);
        Simd compare = from == Lane.F32 ? Simd.CMPPS : Simd.CMPPD;
        compare(compare, from, MASK, value, Operand.register(value), ORDERED);
        compare(compare, from, OTHER_MASK, value, constant(from, from == Lane.F32
                ? Float.floatToRawIntBits(0x1p63f) : Double.doubleToRawLongBits(0x1p63)), GREATER_OR_EQUAL);
        emit(from == Lane.F32 ? Simd.CVTTPS2QQ : Simd.CVTTPD2QQ, Lane.I64, B, 0, Operand.register(value), MASK, true,
                0);
        emit(Simd.BLENDMPD, Lane.I64, target, B, constant(Lane.I64, Long.MAX_VALUE), OTHER_MASK, false, 0);
    }
}
