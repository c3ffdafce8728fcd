package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.List;
import java.util.Locale;

/**
 * A formula as CUDA C++: each output is an expression, preceded by {@link #statements} that name intermediate values.
 * The functions are those of scalar.cuh.
 */
final class FormulaSource implements Formula.Interpretation<String> {
    private final List<String> operands;
    private final int firstParameter;
    private final DType type;
    private final String prefix;
    private final StringBuilder statements = new StringBuilder();
    private final boolean named;
    private int names;

    /**
     * Begins a formula.
     *
     * @param formula the formula
     * @param operands expressions of its operands
     * @param firstParameter number of its first parameter in {@code s.at}
     * @param type type of the last operand
     * @param prefix of the intermediate values' names
     */
    FormulaSource(Formula formula, List<String> operands, int firstParameter, DType type, String prefix) {
        named = formula.steps().size() > 1 || formula.outputs().size() > 1;
        this.operands = operands;
        this.firstParameter = firstParameter;
        this.type = type;
        this.prefix = prefix;
    }

    /** Returns the statements that precede the outputs; empty for a formula of one step. */
    String statements() {
        return statements.toString();
    }

    @Override
    public String operand(int number) {
        return operands.get(number);
    }

    @Override
    public String parameter(int number) {
        return "s.at[" + (firstParameter + number) + "]";
    }

    @Override
    public String constant(double value) {
        return Double.isFinite(value) ? "C(" + value + ")" : nonFinite(value);
    }

    private static String nonFinite(double value) {
        return Double.isNaN(value) ? "C(__longlong_as_double(0x7ff8000000000000ll))"
                : "C(__longlong_as_double(" + (value > 0 ? "0x7ff0000000000000ll" : "-0x10000000000000ll") + "))";
    }

    @Override
    public String apply(Opcode opcode, List<String> of) {
        String a = of.getFirst();
        String b = of.size() > 1 ? of.get(1) : a;
        String c = of.size() > 2 ? of.get(2) : a;
        String text = text(opcode, a, b, c);
        if (!named) {
            return text;
        }
        String name = prefix + names++;
        statements.append("auto ").append(name).append(" = ").append(text).append("; ");
        return name;
    }

    private String text(Opcode opcode, String a, String b, String c) {
        return switch (opcode) {
            case ADD -> call("add", a, b);
            case SUB -> call("subtract", a, b);
            case MUL -> call("multiply", a, b);
            case DIV -> a + " / " + b;
            case POW -> call("power", a, b);
            case REMAINDER -> call("remainder_of", a, b);
            case FLOOR_DIVIDE -> call("floor_divide", a, b);
            case MAXIMUM -> call("maximum", a, b);
            case MINIMUM -> call("minimum", a, b);
            case ATAN2 -> call("atan2", a, b);
            case EQ -> "i64(" + a + " == " + b + ")";
            case NE -> "i64(" + a + " != " + b + ")";
            case LT -> "i64(" + a + " < " + b + ")";
            case LE -> "i64(" + a + " <= " + b + ")";
            case GT -> "i64(" + a + " > " + b + ")";
            case GE -> "i64(" + a + " >= " + b + ")";
            case AND -> a + " & " + b;
            case OR -> a + " | " + b;
            case XOR -> a + " ^ " + b;
            case NOT -> type.isInteger() ? "~" + a : "1 - " + a;
            case WHERE -> a + " != 0 ? " + b + " : " + c;
            case CLAMP -> "clamped(" + a + ", " + b + ", " + c + ")";
            case LEAKY_RELU -> a + " > 0 ? " + a + " : " + b + " * " + a;
            case ELU -> a + " > 0 ? " + a + " : " + b + " * expm1(" + a + ")";
            case AFFINE -> a + " * " + b + " + " + c;
            case FMA -> "fma(" + a + ", " + b + ", " + c + ")";
            case RELU_GRADIENT -> a + " > 0 ? " + b + " : C(0)";
            case SIGMOID_GRADIENT -> b + " * " + a + " * (C(1) - " + a + ")";
            case TANH_GRADIENT -> b + " * (C(1) - " + a + " * " + a + ")";
            case SILU_GRADIENT -> {
                String sigmoid = quick("sigmoid", a);
                yield b + " * " + sigmoid + " * (C(1) + " + a + " * (C(1) - " + sigmoid + "))";
            }
            case GELU_GRADIENT -> b + " * " + quick("gelu_slope", a);
            case GELU_TANH_GRADIENT -> b + " * " + quick("gelu_slope_by_tanh", a);
            case SQUARE -> call("multiply", a, a);
            default -> text(opcode, a);
        };
    }

    private String text(Opcode opcode, String a) {
        return switch (opcode) {
            case NEG -> "negative(" + a + ")";
            case ABS -> "absolute(" + a + ")";
            case SIGN -> a + " > 0 ? C(1) : " + a + " < 0 ? C(-1) : " + a;
            case RSQRT -> "C(1) / sqrt(" + a + ")";
            case RECIPROCAL -> "C(1) / " + a;
            case ROUND -> "rint(" + a + ")";
            case RELU -> a + " <= 0 ? C(0) : " + a;
            case SIGMOID -> quick("sigmoid", a);
            case SILU -> quick("silu", a);
            case SOFTPLUS -> "(" + a + " > 0 ? " + a + " : C(0)) + log1p(exp(-fabs(" + a + ")))";
            case GELU -> a + " * " + quick("normal_cumulative", a);
            case GELU_TANH -> a + " * " + quick("normal_cumulative_by_tanh", a);
            case IS_NAN -> "i64(is_nan(" + a + "))";
            case IS_INF -> "i64(is_inf(" + a + "))";
            case IS_FINITE -> "i64(!is_nan(" + a + ") && !is_inf(" + a + "))";
            case SQRT, EXP, EXPM1, LOG, LOG1P, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH,
                    ERF, FLOOR, CEIL, TRUNC -> opcode.name().toLowerCase(Locale.ROOT) + "(" + a + ")";
            default -> throw new AssertionError(opcode + " has no source");
        };
    }

    private static String call(String function, String a, String b) {
        return function + "(" + a + ", " + b + ")";
    }

    /** Calls a function that has a faster form, accurate enough for elements of 16 bits. */
    private String quick(String function, String a) {
        return (type.bytes() == 2 ? "quick_" : "") + function + "(" + a + ")";
    }
}
