package dev.starling.tensor.reference;

import dev.starling.tensor.op.scalar.Opcode;

/** The primitive functions of integers and bools. */
final class IntegerFunctions {
    private IntegerFunctions() {
    }

    /** Returns a function of up to three numbers, of which the first may be a bool: 0 or 1. */
    static long of(Opcode opcode, long a, long b, long c, boolean bool) {
        return switch (opcode) {
            case ADD -> a + b;
            case SUB -> a - b;
            case MUL -> a * b;
            case DIV -> b == 0 ? 0 : a / b;
            case REMAINDER -> b == 0 ? 0 : Math.floorMod(a, b);
            case FLOOR_DIVIDE -> b == 0 ? 0 : Math.floorDiv(a, b);
            case MAXIMUM -> Math.max(a, b);
            case MINIMUM -> Math.min(a, b);
            case EQ -> a == b ? 1 : 0;
            case NE -> a != b ? 1 : 0;
            case LT -> a < b ? 1 : 0;
            case LE -> a <= b ? 1 : 0;
            case GT -> a > b ? 1 : 0;
            case GE -> a >= b ? 1 : 0;
            case AND -> a & b;
            case OR -> a | b;
            case XOR -> a ^ b;
            case NOT -> bool ? 1 - a : ~a;
            case NEG -> -a;
            case ABS -> Math.abs(a);
            case SIGN -> Long.signum(a);
            case SQUARE -> a * a;
            case FLOOR, CEIL, TRUNC, ROUND -> a;
            case RELU -> Math.max(a, 0);
            case IS_NAN, IS_INF -> 0;
            case IS_FINITE -> 1;
            case WHERE -> a != 0 ? b : c;
            case CLAMP -> Math.min(Math.max(a, b), c);
            case AFFINE -> a * b + c;
            case RELU_GRADIENT -> a > 0 ? b : 0;
            case POW, ATAN2, SQRT, RSQRT, RECIPROCAL, EXP, EXPM1, LOG, LOG1P, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH,
                    COSH, TANH, ASINH, ACOSH, ATANH, ERF, SIGMOID, GELU, GELU_TANH, SILU, SOFTPLUS, LEAKY_RELU, ELU,
                    FMA, SIGMOID_GRADIENT, TANH_GRADIENT, GELU_GRADIENT, GELU_TANH_GRADIENT, SILU_GRADIENT, CAST ->
                    throw new AssertionError(opcode + " needs a floating type, but infer accepted another");
        };
    }
}
