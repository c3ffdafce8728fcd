package dev.starling.tensor.cpu.jit;

import static java.lang.constant.ConstantDescs.CD_double;
import static java.lang.constant.ConstantDescs.CD_float;
import static java.lang.constant.ConstantDescs.CD_int;
import static java.lang.constant.ConstantDescs.CD_long;
import static java.lang.constant.ConstantDescs.CD_void;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.host.HostMemory;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeKind;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.OperatorInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/** Computes one element at a time, with the JVM's own instructions. */
final class ScalarInstructions implements InstructionSet {
    static final ClassDesc SEGMENT = MemorySegment.class.describeConstable().orElseThrow();
    private static final ClassDesc MEMORY = HostMemory.class.describeConstable().orElseThrow();
    private static final ClassDesc LAYOUTS = ValueLayout.class.describeConstable().orElseThrow();
    private static final ClassDesc FLOAT = Float.class.describeConstable().orElseThrow();
    private static final ClassDesc DOUBLE = Double.class.describeConstable().orElseThrow();
    private static final ClassDesc MATH = Math.class.describeConstable().orElseThrow();

    private final CodeBuilder code;

    ScalarInstructions(CodeBuilder code) {
        this.code = code;
    }

    /** Pushes the segment that spans all memory. */
    static void pushMemory(CodeBuilder code) {
        code.getstatic(MEMORY, "ALL", SEGMENT);
    }

    @Override
    public int width() {
        return 1;
    }

    @Override
    public TypeKind kind(Lane lane) {
        return switch (lane) {
            case F32 -> TypeKind.FLOAT;
            case F64 -> TypeKind.DOUBLE;
            case I32, BOOL -> TypeKind.INT;
            case I64 -> TypeKind.LONG;
        };
    }

    @Override
    public boolean keepsConstants() {
        return false;
    }

    private static ClassDesc type(Lane lane) {
        return switch (lane) {
            case F32 -> CD_float;
            case F64 -> CD_double;
            case I32, BOOL -> CD_int;
            case I64 -> CD_long;
        };
    }

    /** How an element is accessed: the name and type of its layout constant, and the type that the access yields. */
    private record Layout(String name, ClassDesc type, ClassDesc carrier) {
        static Layout of(DType dtype) {
            return switch (dtype) {
                case F32 -> of("JAVA_FLOAT_UNALIGNED", ValueLayout.OfFloat.class, float.class);
                case F64 -> of("JAVA_DOUBLE_UNALIGNED", ValueLayout.OfDouble.class, double.class);
                case I32 -> of("JAVA_INT_UNALIGNED", ValueLayout.OfInt.class, int.class);
                case I64 -> of("JAVA_LONG_UNALIGNED", ValueLayout.OfLong.class, long.class);
                case BF16, F16 -> of("JAVA_SHORT_UNALIGNED", ValueLayout.OfShort.class, short.class);
                case I8, U8, BOOL -> of("JAVA_BYTE", ValueLayout.OfByte.class, byte.class);
            };
        }

        private static Layout of(String name, Class<?> type, Class<?> carrier) {
            return new Layout(name, type.describeConstable().orElseThrow(), carrier.describeConstable().orElseThrow());
        }
    }

    @Override
    public void load(DType type, Runnable pushAddress) {
        Layout layout = Layout.of(type);
        pushMemory(code);
        code.getstatic(LAYOUTS, layout.name, layout.type);
        pushAddress.run();
        code.invokeinterface(SEGMENT, "get", MethodTypeDesc.of(layout.carrier, layout.type, CD_long));
        switch (type) {
            case U8 -> code.loadConstant(0xFF).iand();
            case BOOL -> isTrue(Opcode.IFNE);
            case F32, F64, I32, I64, I8, BF16, F16 -> { }
        }
    }

    @Override
    public void loadBroadcast(DType type, Runnable pushAddress) {
        load(type, pushAddress);
    }

    @Override
    public void store(DType type, Runnable pushAddress, Runnable pushValue) {
        Layout layout = Layout.of(type);
        pushMemory(code);
        code.getstatic(LAYOUTS, layout.name, layout.type);
        pushAddress.run();
        pushValue.run();
        switch (type) {
            case I8, U8, BOOL -> code.i2b();
            case BF16, F16 -> code.i2s();
            case F32, F64, I32, I64 -> { }
        }
        code.invokeinterface(SEGMENT, "set", MethodTypeDesc.of(CD_void, layout.type, CD_long, layout.carrier));
    }

    @Override
    public void parameter(Lane lane) {
        switch (lane) {
            case F32 -> code.invokestatic(DOUBLE, "longBitsToDouble", MethodTypeDesc.of(CD_double, CD_long)).d2f();
            case F64 -> code.invokestatic(DOUBLE, "longBitsToDouble", MethodTypeDesc.of(CD_double, CD_long));
            case I32 -> code.l2i();
            case I64 -> { }
            case BOOL -> {
                code.l2i();
                isTrue(Opcode.IFNE);
            }
        }
    }

    @Override
    public void constant(Lane lane, long bits) {
        switch (lane) {
            case F32 -> code.loadConstant(Float.intBitsToFloat((int) bits));
            case F64 -> code.loadConstant(Double.longBitsToDouble(bits));
            case I32 -> code.loadConstant((int) bits);
            case BOOL -> code.loadConstant(bits != 0 ? 1 : 0);
            case I64 -> code.loadConstant(bits);
        }
    }

    @Override
    public void apply(Node node, Lane a, IntConsumer push) {
        switch (node.primitive()) {
            case SELECT -> select(node, push);
            case EQ, NE, LT, LE -> compare(node, a, push);
            case CALL -> call(node, push, node.a(), node.b());
            case RARE -> rare(node, push);
            default -> {
                push.accept(node.a());
                if (node.b() >= 0) {
                    push.accept(node.b());
                }
                if (node.c() >= 0) {
                    push.accept(node.c());
                }
                arithmetic(node, a);
            }
        }
    }

    private void arithmetic(Node node, Lane a) {
        TypeKind kind = kind(node.lane());
        switch (node.primitive()) {
            case ADD -> code.with(operator(kind, Opcode.IADD, Opcode.LADD, Opcode.FADD, Opcode.DADD));
            case SUB -> code.with(operator(kind, Opcode.ISUB, Opcode.LSUB, Opcode.FSUB, Opcode.DSUB));
            case MUL -> code.with(operator(kind, Opcode.IMUL, Opcode.LMUL, Opcode.FMUL, Opcode.DMUL));
            case DIV -> code.with(operator(kind, null, null, Opcode.FDIV, Opcode.DDIV));
            case NEG -> code.with(operator(kind, Opcode.INEG, Opcode.LNEG, Opcode.FNEG, Opcode.DNEG));
            case AND -> code.with(operator(kind, Opcode.IAND, Opcode.LAND, null, null));
            case OR -> code.with(operator(kind, Opcode.IOR, Opcode.LOR, null, null));
            case XOR -> code.with(operator(kind, Opcode.IXOR, Opcode.LXOR, null, null));
            case NOT -> {
                constant(node.lane(), node.lane() == Lane.BOOL ? 1 : -1);
                code.with(operator(kind, Opcode.IXOR, Opcode.LXOR, null, null));
            }
            case SHL -> shift(node, kind, Opcode.ISHL, Opcode.LSHL);
            case SAR -> shift(node, kind, Opcode.ISHR, Opcode.LSHR);
            case SHR -> shift(node, kind, Opcode.IUSHR, Opcode.LUSHR);
            case FMA -> math("fma", node.lane(), 3);
            case MIN -> math("min", node.lane(), 2);
            case MAX -> math("max", node.lane(), 2);
            case ABS -> math("abs", node.lane(), 1);
            case SQRT -> {
                code.conversion(kind, TypeKind.DOUBLE);
                math("sqrt", Lane.F64, 1);
                code.conversion(TypeKind.DOUBLE, kind);
            }
            case CONVERT -> code.conversion(kind(a), kind);
            case REINTERPRET -> reinterpret(node.lane());
            default -> throw new IllegalArgumentException(node.toString());
        }
    }

    private static OperatorInstruction operator(TypeKind kind, @Nullable Opcode i, @Nullable Opcode l,
            @Nullable Opcode f, @Nullable Opcode d) {
        return OperatorInstruction.of(Objects.requireNonNull(switch (kind) {
            case INT -> i;
            case LONG -> l;
            case FLOAT -> f;
            default -> d;
        }, "the kind has no such instruction"));
    }

    private void shift(Node node, TypeKind kind, Opcode i, Opcode l) {
        code.loadConstant((int) node.immediate());
        code.with(operator(kind, i, l, null, null));
    }

    private void math(String name, Lane lane, int arity) {
        ClassDesc[] operands = new ClassDesc[arity];
        Arrays.fill(operands, type(lane));
        code.invokestatic(MATH, name, MethodTypeDesc.of(type(lane), operands));
    }

    private void reinterpret(Lane to) {
        switch (to) {
            case F32 -> code.invokestatic(FLOAT, "intBitsToFloat", MethodTypeDesc.of(CD_float, CD_int));
            case I32 -> code.invokestatic(FLOAT, "floatToRawIntBits", MethodTypeDesc.of(CD_int, CD_float));
            case F64 -> code.invokestatic(DOUBLE, "longBitsToDouble", MethodTypeDesc.of(CD_double, CD_long));
            case I64 -> code.invokestatic(DOUBLE, "doubleToRawLongBits", MethodTypeDesc.of(CD_long, CD_double));
            case BOOL -> throw new IllegalArgumentException("a bool cannot be reinterpreted");
        }
    }

    private void call(Node node, IntConsumer push, int... operands) {
        Function function = Function.values()[(int) node.immediate()];
        ClassDesc[] types = new ClassDesc[function.arity];
        Arrays.fill(types, type(node.lane()));
        for (int k = 0; k < function.arity; k++) {
            push.accept(operands[k]);
        }
        code.invokestatic(function.owner().describeConstable().orElseThrow(), function.method,
                MethodTypeDesc.of(type(node.lane()), types));
    }

    private void rare(Node node, IntConsumer push) {
        Label usual = code.newLabel();
        Label end = code.newLabel();
        push.accept(node.a());
        code.ifeq(usual);
        call(node, push, node.c());
        code.goto_(end).labelBinding(usual);
        push.accept(node.b());
        code.labelBinding(end);
    }

    private void select(Node node, IntConsumer push) {
        Label otherwise = code.newLabel();
        Label end = code.newLabel();
        push.accept(node.a());
        code.ifeq(otherwise);
        push.accept(node.b());
        code.goto_(end).labelBinding(otherwise);
        push.accept(node.c());
        code.labelBinding(end);
    }

    /** If an operand is NaN, the comparison of floats yields "greater", so that no comparison except NE holds. */
    private void compare(Node node, Lane lane, IntConsumer push) {
        push.accept(node.a());
        push.accept(node.b());
        boolean ints = lane == Lane.I32;
        switch (lane) {
            case F32 -> code.fcmpg();
            case F64 -> code.dcmpg();
            case I64 -> code.lcmp();
            case I32, BOOL -> { }
        }
        isTrue(switch (node.primitive()) {
            case EQ -> ints ? Opcode.IF_ICMPEQ : Opcode.IFEQ;
            case NE -> ints ? Opcode.IF_ICMPNE : Opcode.IFNE;
            case LT -> ints ? Opcode.IF_ICMPLT : Opcode.IFLT;
            case LE -> ints ? Opcode.IF_ICMPLE : Opcode.IFLE;
            default -> throw new IllegalArgumentException(node.toString());
        });
    }

    /** Leaves 1 if the branch would be taken, else 0. */
    private void isTrue(Opcode branch) {
        Label yes = code.newLabel();
        Label end = code.newLabel();
        code.with(BranchInstruction.of(branch, yes));
        code.iconst_0().goto_(end).labelBinding(yes).iconst_1().labelBinding(end);
    }
}
