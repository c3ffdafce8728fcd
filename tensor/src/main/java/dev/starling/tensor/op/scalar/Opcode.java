package dev.starling.tensor.op.scalar;

import dev.starling.tensor.DType;

/**
 * The primitive functions of numbers, of which every {@link Formula} consists and which every backend computes in its
 * own way. By default all operands and the result have the same type. Integers wrap around.
 */
public enum Opcode {
    ADD(2), SUB(2), MUL(2),
    /** True division of floats. For integers, the quotient truncated towards 0, and 0 for a divisor of 0. */
    DIV(2),
    POW(2),
    /** {@code a - floor(a / b) * b}, with the sign of b; for integers, 0 for a divisor of 0. */
    REMAINDER(2),
    /** {@code floor(a / b)}; for integers, 0 for a divisor of 0. */
    FLOOR_DIVIDE(2),
    /** The larger operand; NaN if either is NaN. */
    MAXIMUM(2),
    /** The smaller operand; NaN if either is NaN. */
    MINIMUM(2),
    ATAN2(2),
    /** Comparisons have a bool result; with NaN all but NE are false. */
    EQ(2), NE(2), LT(2), LE(2), GT(2), GE(2),
    /** Logical on bools, bitwise on integers. */
    AND(2), OR(2), XOR(2), NOT(1),
    NEG(1), ABS(1), SIGN(1), SQUARE(1), SQRT(1), RSQRT(1), RECIPROCAL(1),
    EXP(1), EXPM1(1), LOG(1), LOG1P(1),
    SIN(1), COS(1), TAN(1), ASIN(1), ACOS(1), ATAN(1), SINH(1), COSH(1), TANH(1), ASINH(1), ACOSH(1), ATANH(1), ERF(1),
    FLOOR(1), CEIL(1), TRUNC(1),
    /** To the nearest integer, ties to even. */
    ROUND(1),
    SIGMOID(1), RELU(1),
    /** {@code x * Phi(x)} with the error function. */
    GELU(1),
    /** {@code x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2}. */
    GELU_TANH(1),
    SILU(1), SOFTPLUS(1),
    /** Predicates on floats have a bool result. */
    IS_NAN(1), IS_INF(1), IS_FINITE(1),
    /** Operands (condition bool, a, b): a where the condition holds, else b. */
    WHERE(3),
    /** Operands (x, low, high): {@code min(max(x, low), high)}; NaN is kept. */
    CLAMP(3),
    /** Operands (x, slope): x if positive, else slope * x. */
    LEAKY_RELU(2),
    /** Operands (x, alpha): x if positive, else {@code alpha * (e^x - 1)}. */
    ELU(2),
    /** Operands (x, scale, shift): {@code x * scale + shift}, each step rounded. */
    AFFINE(3),
    /** Operands (a, b, c): {@code a * b + c} of floats, rounded once. */
    FMA(3),
    /** Operands (y, g): g if y is positive, else 0. */
    RELU_GRADIENT(2),
    /** Operands (y, g): {@code g * y * (1 - y)}. */
    SIGMOID_GRADIENT(2),
    /** Operands (y, g): {@code g * (1 - y^2)}. */
    TANH_GRADIENT(2),
    /** Operands (x, g): the gradient of {@link #GELU}. */
    GELU_GRADIENT(2),
    /** Operands (x, g): the gradient of {@link #GELU_TANH}. */
    GELU_TANH_GRADIENT(2),
    /** Operands (x, g): the gradient of {@link #SILU}. */
    SILU_GRADIENT(2),
    /** Converts to another type: floats to integers truncated towards 0, numbers to bool as {@code x != 0}. */
    CAST(1);

    private final int arity;

    Opcode(int arity) {
        this.arity = arity;
    }

    /** The number of operands. */
    public int arity() {
        return arity;
    }

    /** Returns whether the opcode is defined for operands of a type. */
    public boolean computes(DType type) {
        return switch (this) {
            case AND, OR, XOR, NOT -> !type.isFloating();
            case ADD, MUL, MAXIMUM, MINIMUM, EQ, NE, LT, LE, GT, GE, WHERE, CAST -> true;
            case SUB, DIV, REMAINDER, FLOOR_DIVIDE, NEG, ABS, SIGN, SQUARE, FLOOR, CEIL, TRUNC, ROUND, RELU, CLAMP,
                    AFFINE, RELU_GRADIENT -> type != DType.BOOL;
            default -> type.isFloating();
        };
    }

    /** Returns whether the result is a bool, whatever the type of the operands. */
    public boolean isPredicate() {
        return switch (this) {
            case EQ, NE, LT, LE, GT, GE, IS_NAN, IS_INF, IS_FINITE -> true;
            default -> false;
        };
    }
}
