package dev.starling.tensor.cpu.jit;

import static java.lang.constant.ConstantDescs.CD_boolean;
import static java.lang.constant.ConstantDescs.CD_byte;
import static java.lang.constant.ConstantDescs.CD_int;
import static java.lang.constant.ConstantDescs.CD_long;
import static java.lang.constant.ConstantDescs.CD_short;
import static java.lang.constant.ConstantDescs.CD_void;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.nio.ByteOrder;
import java.util.Locale;
import java.util.function.IntConsumer;

/**
 * Computes a vector at a time, with the Vector API. All values have the same number of elements. Bools are masks of the
 * I32 or the I64 species, as wide as the lanes that were compared, and are cast where another lane needs them.
 */
final class VectorInstructions implements InstructionSet {
    private static final String PACKAGE = "jdk.incubator.vector";
    private static final ClassDesc VECTOR = ClassDesc.of(PACKAGE, "Vector");
    private static final ClassDesc MASK = ClassDesc.of(PACKAGE, "VectorMask");
    private static final ClassDesc SPECIES = ClassDesc.of(PACKAGE, "VectorSpecies");
    private static final ClassDesc OPERATORS = ClassDesc.of(PACKAGE, "VectorOperators");
    private static final ClassDesc BINARY = OPERATORS.nested("Binary");
    private static final ClassDesc ASSOCIATIVE = OPERATORS.nested("Associative");
    private static final ClassDesc COMPARISON = OPERATORS.nested("Comparison");
    private static final ClassDesc CONVERSION = OPERATORS.nested("Conversion");
    private static final ClassDesc BYTE_ORDER = ByteOrder.class.describeConstable().orElseThrow();
    private static final String ORDER = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN
            ? "BIG_ENDIAN" : "LITTLE_ENDIAN";

    /**
     * A vector class: the first part of its name, its element's type, and that type's letter in names of conversions.
     */
    private enum Element {
        FLOAT("Float", ConstantDescs.CD_float, 32), DOUBLE("Double", ConstantDescs.CD_double, 64),
        INT("Int", CD_int, 32), LONG("Long", CD_long, 64), SHORT("Short", CD_short, 16), BYTE("Byte", CD_byte, 8);

        final ClassDesc vector;
        final ClassDesc type;
        final int bits;

        Element(String name, ClassDesc type, int bits) {
            vector = ClassDesc.of(PACKAGE, name + "Vector");
            this.type = type;
            this.bits = bits;
        }

        static Element of(Lane lane) {
            return switch (lane) {
                case F32 -> FLOAT;
                case F64 -> DOUBLE;
                case I32, BOOL -> INT;
                case I64 -> LONG;
            };
        }

        static Element of(DType type) {
            return switch (type) {
                case F32 -> FLOAT;
                case F64 -> DOUBLE;
                case I32 -> INT;
                case I64 -> LONG;
                case BF16, F16 -> SHORT;
                case I8, U8, BOOL -> BYTE;
            };
        }

        char letter() {
            return name().charAt(0);
        }
    }

    private final CodeBuilder code;
    private final LoopBody body;
    private final int width;
    private final ScalarInstructions scalar;

    VectorInstructions(CodeBuilder code, LoopBody body, int width) {
        this.code = code;
        this.body = body;
        this.width = width;
        scalar = new ScalarInstructions(code);
    }

    /**
     * Returns the number of elements per vector of a loop, for vectors of {@code bits} bits; 0 if the loop cannot be
     * vectorised, or only with vectors that the JVM compiles badly.
     */
    static int width(LoopBody body, Expression expression, int bits) {
        if (bits < 128) {
            return 0;
        }
        int laneBytes = 4;
        for (Node node : body.nodes()) {
            laneBytes = Math.max(laneBytes, node.lane().bytes);
            boolean supported = switch (node.primitive()) {
                case CALL -> false;
                case CONVERT -> bits == 512 || (node.lane() == Lane.I64) == (body.lane(node.a()) == Lane.I64)
                        || !node.lane().isFloating() && !body.lane(node.a()).isFloating();
                case MUL -> node.lane() != Lane.I64 || bits == 512;
                default -> true;
            };
            if (!supported) {
                return 0;
            }
        }
        int width = bits / 8 / laneBytes;
        for (int k = 0; k < expression.operands(); k++) {
            if (width * expression.operand(k).bytes() < 8) {
                return 0;
            }
        }
        return width;
    }

    @Override
    public int width() {
        return width;
    }

    @Override
    public TypeKind kind(Lane lane) {
        return TypeKind.REFERENCE;
    }

    @Override
    public boolean keepsConstants() {
        return true;
    }

    private void species(Element element) {
        code.getstatic(element.vector, "SPECIES_" + element.bits * width, SPECIES);
    }

    private void operator(String name, ClassDesc type) {
        code.getstatic(OPERATORS, name, type);
    }

    private void convertShape(String conversion, Element to) {
        operator(conversion, CONVERSION);
        species(to);
        code.iconst_0().invokevirtual(VECTOR, "convertShape", MethodTypeDesc.of(VECTOR, CONVERSION, SPECIES, CD_int));
        code.checkcast(to.vector);
    }

    private void castMask(Element to) {
        species(to);
        code.invokevirtual(MASK, "cast", MethodTypeDesc.of(MASK, SPECIES));
    }

    /** Returns the species of the mask that holds a bool. */
    private Element mask(int value) {
        Node node = body.nodes().get(value);
        return switch (node.primitive()) {
            case EQ, NE, LT, LE -> body.lane(node.a()).bytes == 8 ? Element.LONG : Element.INT;
            case AND, OR, XOR, NOT -> mask(node.a());
            case SELECT -> mask(node.b());
            default -> Element.INT;
        };
    }

    private void pushMask(IntConsumer push, int value, Element to) {
        push.accept(value);
        if (mask(value) != to) {
            castMask(to);
        }
    }

    private void byteOrder() {
        code.getstatic(BYTE_ORDER, ORDER, BYTE_ORDER);
    }

    @Override
    public void load(DType type, Runnable pushAddress) {
        Element element = Element.of(type);
        species(element);
        ScalarInstructions.pushMemory(code);
        pushAddress.run();
        byteOrder();
        code.invokestatic(element.vector, "fromMemorySegment",
                MethodTypeDesc.of(element.vector, SPECIES, ScalarInstructions.SEGMENT, CD_long, BYTE_ORDER));
        switch (type) {
            case I8 -> convertShape("B2I", Element.INT);
            case U8 -> convertShape("ZERO_EXTEND_B2I", Element.INT);
            case BF16, F16 -> convertShape("S2I", Element.INT);
            case BOOL -> {
                operator("NE", COMPARISON);
                code.iconst_0().i2l();
                code.invokevirtual(element.vector, "compare", MethodTypeDesc.of(MASK, COMPARISON, CD_long));
                castMask(Element.INT);
            }
            case F32, F64, I32, I64 -> { }
        }
    }

    @Override
    public void loadBroadcast(DType type, Runnable pushAddress) {
        Lane lane = type == DType.BF16 || type == DType.F16 ? Lane.I32 : Lane.of(type);
        beforeBroadcast(lane);
        scalar.load(type, pushAddress);
        broadcast(lane);
    }

    private void beforeBroadcast(Lane lane) {
        species(Element.of(lane));
    }

    /** Makes a vector of the scalar on the stack; {@link #beforeBroadcast} precedes the scalar. */
    private void broadcast(Lane lane) {
        if (lane == Lane.BOOL) {
            code.invokeinterface(SPECIES, "maskAll", MethodTypeDesc.of(MASK, CD_boolean));
        } else {
            Element element = Element.of(lane);
            code.invokestatic(element.vector, "broadcast", MethodTypeDesc.of(element.vector, SPECIES, element.type));
        }
    }

    @Override
    public void store(DType type, Runnable pushAddress, Runnable pushValue) {
        Element element = Element.of(type);
        if (type == DType.BOOL) {
            for (int bit = 0; bit < 2; bit++) {
                species(element);
                code.loadConstant(bit).i2b();
                code.invokestatic(element.vector, "broadcast", MethodTypeDesc.of(element.vector, SPECIES, CD_byte));
            }
            pushValue.run();
            castMask(element);
            code.invokevirtual(element.vector, "blend", MethodTypeDesc.of(element.vector, VECTOR, MASK));
        } else {
            pushValue.run();
            if (element == Element.BYTE || element == Element.SHORT) {
                convertShape("I2" + element.letter(), element);
            }
        }
        ScalarInstructions.pushMemory(code);
        pushAddress.run();
        byteOrder();
        code.invokevirtual(VECTOR, "intoMemorySegment",
                MethodTypeDesc.of(CD_void, ScalarInstructions.SEGMENT, CD_long, BYTE_ORDER));
    }

    @Override
    public void parameter(Lane lane) {
        scalar.parameter(lane);
        TypeKind kind = scalar.kind(lane);
        int slot = code.allocateLocal(kind);
        code.storeLocal(kind, slot);
        beforeBroadcast(lane);
        code.loadLocal(kind, slot);
        broadcast(lane);
    }

    @Override
    public void constant(Lane lane, long bits) {
        beforeBroadcast(lane);
        scalar.constant(lane, bits);
        broadcast(lane);
    }

    @Override
    public void apply(Node node, Lane a, IntConsumer push) {
        Element element = Element.of(node.lane());
        boolean masked = node.lane() == Lane.BOOL;
        switch (node.primitive()) {
            case ADD, SUB, MUL, DIV, MIN, MAX -> binary(node, element, push);
            case AND, OR, XOR -> {
                if (masked) {
                    push.accept(node.a());
                    pushMask(push, node.b(), mask(node.a()));
                    code.invokevirtual(MASK, lower(node), MethodTypeDesc.of(MASK, MASK));
                } else {
                    push.accept(node.a());
                    operator(node.primitive().name(), ASSOCIATIVE);
                    push.accept(node.b());
                    code.invokevirtual(element.vector, "lanewise", MethodTypeDesc.of(element.vector, BINARY, VECTOR));
                }
            }
            case NOT -> {
                push.accept(node.a());
                code.invokevirtual(masked ? MASK : element.vector, "not",
                        MethodTypeDesc.of(masked ? MASK : element.vector));
            }
            case NEG, ABS, SQRT -> {
                push.accept(node.a());
                code.invokevirtual(element.vector, lower(node), MethodTypeDesc.of(element.vector));
            }
            case FMA -> {
                push.accept(node.a());
                push.accept(node.b());
                push.accept(node.c());
                code.invokevirtual(element.vector, "fma", MethodTypeDesc.of(element.vector, VECTOR, VECTOR));
            }
            case SHL, SAR, SHR -> shift(node, element, push);
            case EQ, NE, LT, LE -> compare(node, Element.of(a), push);
            case SELECT -> select(node, element, push);
            case REINTERPRET -> {
                push.accept(node.a());
                String name = switch (element) {
                    case FLOAT -> "reinterpretAsFloats";
                    case DOUBLE -> "reinterpretAsDoubles";
                    case INT -> "reinterpretAsInts";
                    default -> "reinterpretAsLongs";
                };
                code.invokevirtual(VECTOR, name, MethodTypeDesc.of(element.vector));
            }
            case CONVERT -> {
                push.accept(node.a());
                convertShape(Element.of(a).letter() + "2" + element.letter(), element);
            }
            case CALL, RARE, LOAD, STORE, PARAMETER, CONSTANT, ACCUMULATOR, UPDATE ->
                throw new IllegalArgumentException(node.toString());
        }
    }

    private static String lower(Node node) {
        return node.primitive().name().toLowerCase(Locale.ROOT);
    }

    private void binary(Node node, Element element, IntConsumer push) {
        push.accept(node.a());
        push.accept(node.b());
        code.invokevirtual(element.vector, lower(node), MethodTypeDesc.of(element.vector, VECTOR));
    }

    /** Jumps if no lane of a mask is set. */
    void jumpIfNone(IntConsumer push, int mask, Label target) {
        push.accept(mask);
        code.invokevirtual(MASK, "anyTrue", MethodTypeDesc.of(CD_boolean)).ifeq(target);
    }

    private void shift(Node node, Element element, IntConsumer push) {
        push.accept(node.a());
        operator(switch (node.primitive()) {
            case SHL -> "LSHL";
            case SAR -> "ASHR";
            default -> "LSHR";
        }, BINARY);
        code.loadConstant((int) node.immediate());
        if (element == Element.LONG) {
            code.i2l();
        }
        code.invokevirtual(element.vector, "lanewise", MethodTypeDesc.of(element.vector, BINARY, element.type));
    }

    private void compare(Node node, Element element, IntConsumer push) {
        push.accept(node.a());
        operator(node.primitive().name(), COMPARISON);
        push.accept(node.b());
        code.invokevirtual(element.vector, "compare", MethodTypeDesc.of(MASK, COMPARISON, VECTOR));
        Element mask = element.bits == 64 ? Element.LONG : Element.INT;
        if (element != mask) {
            castMask(mask);
        }
    }

    private void select(Node node, Element element, IntConsumer push) {
        if (node.lane() == Lane.BOOL) {
            Element mask = mask(node.b());
            pushMask(push, node.a(), mask);
            push.accept(node.b());
            code.invokevirtual(MASK, "and", MethodTypeDesc.of(MASK, MASK));
            pushMask(push, node.c(), mask);
            pushMask(push, node.a(), mask);
            code.invokevirtual(MASK, "andNot", MethodTypeDesc.of(MASK, MASK));
            code.invokevirtual(MASK, "or", MethodTypeDesc.of(MASK, MASK));
            return;
        }
        push.accept(node.c());
        push.accept(node.b());
        pushMask(push, node.a(), element);
        code.invokevirtual(element.vector, "blend", MethodTypeDesc.of(element.vector, VECTOR, MASK));
    }
}
