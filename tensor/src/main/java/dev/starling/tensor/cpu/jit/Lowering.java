package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.Expression.Instruction;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.List;

/** Turns an {@link Expression} into the primitives of a {@link LoopBody}. */
final class Lowering {
    private final LoopBody body = new LoopBody();
    private final Functions functions = new Functions(body);
    private final Expression expression;
    private final int[] values;

    private Lowering(Expression expression) {
        this.expression = expression;
        values = new int[expression.instructions().size()];
    }

    static LoopBody lower(Expression expression) {
        return new Lowering(expression).run();
    }

    private LoopBody run() {
        DType[] types = new DType[values.length];
        for (Value output : expression.outputs()) {
            types[output.index()] = output.type();
        }
        for (Instruction instruction : expression.instructions()) {
            if (instruction instanceof Instruction.Apply apply) {
                for (Value operand : apply.operands()) {
                    types[operand.index()] = operand.type();
                }
            }
        }
        for (int i = 0; i < values.length; i++) {
            if (types[i] != null) {
                values[i] = lower(expression.instructions().get(i), types[i]);
            }
        }
        for (int i = 0; i < expression.outputs().size(); i++) {
            Value output = expression.outputs().get(i);
            store(values[output.index()], output.type(), expression.inputs().size() + i);
        }
        return body;
    }

    private int lower(Instruction instruction, DType type) {
        return switch (instruction) {
            case Instruction.Input input -> load(type, input.operand());
            case Instruction.Parameter parameter -> wrap(body.parameter(Lane.of(type), parameter.number()), type);
            case Instruction.Constant constant -> wrap(type.isFloating()
                    ? body.constant(Lane.of(type), Double.longBitsToDouble(constant.bits()))
                    : body.bits(Lane.of(type), constant.bits()), type);
            case Instruction.Apply(Opcode opcode, List<Value> operands) -> {
                if (opcode == Opcode.CAST) {
                    yield cast(operands.getFirst(), type);
                }
                int a = values[operands.getFirst().index()];
                int b = operands.size() > 1 ? values[operands.get(1).index()] : a;
                int c = operands.size() > 2 ? values[operands.get(2).index()] : a;
                yield wrap(apply(opcode, a, b, c), type);
            }
        };
    }

    private int load(DType type, int operand) {
        return switch (type) {
            case F32, F64, I32, I64, I8, U8, BOOL -> body.load(Lane.of(type), operand);
            case BF16 -> body.reinterpret(body.shift(Primitive.SHL, body.load(Lane.I32, operand), 16));
            case F16 -> HalfFloat.widen(body, body.load(Lane.I32, operand));
        };
    }

    private void store(int value, DType type, int operand) {
        body.store(switch (type) {
            case F32, F64, I32, I64, I8, U8, BOOL -> value;
            case BF16 -> HalfFloat.narrowToBrain(body, value);
            case F16 -> HalfFloat.narrow(body, value);
        }, operand);
    }

    /** Wraps a value that was computed in 32 bits to the range of a narrower integer. */
    private int wrap(int value, DType type) {
        return switch (type) {
            case I8 -> body.shift(Primitive.SAR, body.shift(Primitive.SHL, value, 24), 24);
            case U8 -> body.and(value, body.bits(Lane.I32, 0xFF));
            case F32, F64, BF16, F16, I64, I32, BOOL -> value;
        };
    }

    private int cast(Value from, DType type) {
        int value = values[from.index()];
        Lane source = body.lane(value);
        Lane target = Lane.of(type);
        if (target == Lane.BOOL) {
            return source == Lane.BOOL ? value : body.compare(Primitive.NE, value, body.constantLike(value, 0));
        }
        if (source == Lane.BOOL) {
            return body.select(value, body.constant(target, 1), body.constant(target, 0));
        }
        if (source.isFloating() && target == Lane.I32) {
            value = body.convert(Lane.I64, value);
        }
        if (type == DType.BF16 && (source == Lane.I32 || source == Lane.I64)) {
            // f32 would round first.
            value = body.convert(Lane.F64, source == Lane.I64 ? HalfFloat.toOddLong(body, value) : value);
            source = Lane.F64;
        }
        if (source == Lane.F64 && type.isFloating() && type.bytes() == 2) {
            return HalfFloat.toOdd(body, value);
        }
        return wrap(body.convert(target, value), type);
    }

    private int apply(Opcode opcode, int a, int b, int c) {
        return switch (opcode) {
            case ADD -> isBool(a) ? body.or(a, b) : body.add(a, b);
            case SUB -> body.sub(a, b);
            case MUL -> isBool(a) ? body.and(a, b) : body.mul(a, b);
            case DIV -> isFloating(a) ? body.div(a, b) : body.call(Function.DIVIDE, a, b);
            case POW -> functions.pow(a, b);
            case REMAINDER -> body.call(Function.REMAINDER, a, b);
            case FLOOR_DIVIDE -> body.call(Function.FLOOR_DIVIDE, a, b);
            case MAXIMUM -> isBool(a) ? body.or(a, b) : body.binary(Primitive.MAX, a, b);
            case MINIMUM -> isBool(a) ? body.and(a, b) : body.binary(Primitive.MIN, a, b);
            case ATAN2 -> functions.atan2(a, b);
            case EQ -> isBool(a) ? body.not(body.binary(Primitive.XOR, a, b)) : body.compare(Primitive.EQ, a, b);
            case NE -> isBool(a) ? body.binary(Primitive.XOR, a, b) : body.compare(Primitive.NE, a, b);
            case LT -> isBool(a) ? body.and(body.not(a), b) : body.less(a, b);
            case LE -> isBool(a) ? body.or(body.not(a), b) : body.compare(Primitive.LE, a, b);
            case GT -> isBool(a) ? body.and(a, body.not(b)) : body.less(b, a);
            case GE -> isBool(a) ? body.or(a, body.not(b)) : body.compare(Primitive.LE, b, a);
            case AND -> body.and(a, b);
            case OR -> body.or(a, b);
            case XOR -> body.binary(Primitive.XOR, a, b);
            case NOT -> body.not(a);
            case WHERE -> body.select(a, b, c);
            case CLAMP -> body.select(body.less(c, atLeast(a, b)), c, atLeast(a, b));
            case LEAKY_RELU -> body.select(body.less(zero(a), a), a, body.mul(a, b));
            case ELU -> body.select(body.less(zero(a), a), a, body.mul(functions.expm1(a), b));
            case AFFINE -> body.add(body.mul(a, b), c);
            case FMA -> body.fma(a, b, c);
            case RELU_GRADIENT -> body.select(body.less(zero(a), a), b, zero(a));
            case SIGMOID_GRADIENT -> body.mul(b, body.mul(a, body.sub(one(a), a)));
            case TANH_GRADIENT -> body.mul(b, body.sub(one(a), body.mul(a, a)));
            case GELU_GRADIENT -> functions.geluGradient(a, b);
            case GELU_TANH_GRADIENT -> functions.geluTanhGradient(a, b);
            case SILU_GRADIENT -> functions.siluGradient(a, b);
            default -> apply(opcode, a);
        };
    }

    private int apply(Opcode opcode, int a) {
        return switch (opcode) {
            case NEG -> body.neg(a);
            case ABS -> body.abs(a);
            case SIGN -> sign(a);
            case SQUARE -> body.mul(a, a);
            case SQRT -> body.unary(Primitive.SQRT, a);
            case RSQRT -> body.div(one(a), body.unary(Primitive.SQRT, a));
            case RECIPROCAL -> body.div(one(a), a);
            case EXP -> functions.exp(a);
            case EXPM1 -> functions.expm1(a);
            case LOG -> functions.log(a);
            case LOG1P -> functions.log1p(a);
            case SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, ASINH, ACOSH, ATANH -> functions.viaDouble(opcode, a);
            case TANH -> functions.tanh(a);
            case ERF -> functions.erf(a);
            case FLOOR -> isFloating(a) ? functions.floor(a) : a;
            case CEIL -> isFloating(a) ? functions.ceil(a) : a;
            case TRUNC -> isFloating(a) ? functions.trunc(a) : a;
            case ROUND -> isFloating(a) ? functions.round(a) : a;
            case SIGMOID -> functions.sigmoid(a);
            case RELU -> body.select(body.compare(Primitive.LE, a, zero(a)), zero(a), a);
            case GELU -> functions.gelu(a);
            case GELU_TANH -> functions.geluTanh(a);
            case SILU -> functions.silu(a);
            case SOFTPLUS -> functions.softplus(a);
            case IS_NAN -> body.compare(Primitive.NE, a, a);
            case IS_INF -> body.compare(Primitive.EQ, body.abs(a), infinity(a));
            case IS_FINITE -> body.less(body.abs(a), infinity(a));
            default -> throw new IllegalArgumentException(opcode + " has no lowering");
        };
    }

    private boolean isFloating(int value) {
        return body.lane(value).isFloating();
    }

    private boolean isBool(int value) {
        return body.lane(value) == Lane.BOOL;
    }

    private int zero(int like) {
        return body.constantLike(like, 0);
    }

    private int one(int like) {
        return body.constantLike(like, 1);
    }

    private int infinity(int like) {
        return body.constantLike(like, Double.POSITIVE_INFINITY);
    }

    private int atLeast(int value, int low) {
        return body.select(body.less(value, low), low, value);
    }

    private int sign(int a) {
        int negative = body.select(body.less(a, zero(a)), body.constantLike(a, -1), a);
        return body.select(body.less(zero(a), a), one(a), negative);
    }
}
