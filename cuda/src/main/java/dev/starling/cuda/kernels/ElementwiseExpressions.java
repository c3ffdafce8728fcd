package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Where;
import dev.starling.tensor.spi.Chain;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Elementwise operations as CUDA C++ expressions over operands {@code a b c} and parameters {@code p q}, which in
 * chains are {@code s.at[k]}; see elementwise.cu. Parameters are arguments of the kernel, so new values need no new
 * kernel.
 */
final class ElementwiseExpressions {
    private static final double[] NONE = {};
    private static final Pattern NAME = Pattern.compile("\\b[abcpq]\\b");

    private ElementwiseExpressions() { }

    /** A chain as an expression, and the values of its parameters. */
    record Fused(String expression, double[] parameters) { }

    /** Returns the expression of an operation; its type is the wide type of {@code type}, or i64. */
    static String of(Elementwise op, DType type) {
        return switch (op) {
            case Cast _ -> "a";
            case Where _ -> "a != 0 ? b : c";
            case Unary u -> of(u);
            case Activation a -> of(a, type.bytes() == 2 ? "quick_" : "");
            case Binary b -> of(b);
            case Comparison c -> "i64(" + of(c) + ")";
            case Logic.And _ -> "a & b";
            case Logic.Or _ -> "a | b";
            case Logic.Xor _ -> "a ^ b";
            case Logic.Not _ -> type == DType.BOOL ? "1 - a" : "~a";
        };
    }

    /** Returns the values of {@code p} and {@code q}, as far as the expression uses them. */
    static double[] parameters(Elementwise op) {
        return switch (op) {
            case Unary.Affine(double scale, double shift) -> new double[] {scale, shift};
            case Unary.Clamp(double low, double high) -> new double[] {low, high};
            case Unary.PowScalar(double exponent) -> new double[] {exponent};
            case Activation.LeakyRelu(double slope) -> new double[] {slope};
            case Activation.Elu(double alpha) -> new double[] {alpha};
            default -> NONE;
        };
    }

    /**
     * Returns a chain of up to three operands as one expression that rounds where the separate operations would; or
     * {@code null} if they compute in several types, or have parameters for integers.
     */
    static Fused of(Chain chain) {
        int operands = chain.operands().size();
        String wide = Types.wide(chain.operands().getLast().dtype());
        StringBuilder body = new StringBuilder("[&] { ");
        double[] all = NONE;
        for (int i = 0; i < chain.steps().size(); i++) {
            Chain.Step step = chain.steps().get(i);
            DType type = chain.spec(step.of().getLast()).dtype();
            double[] parameters = parameters(step.op());
            if (operands > 3 || !Types.wide(type).equals(wide) || parameters.length > 0 && !type.isFloating()) {
                return null;
            }
            int first = all.length;
            all = Arrays.copyOf(all, first + parameters.length);
            System.arraycopy(parameters, 0, all, first, parameters.length);
            String expression = NAME.matcher(of(step.op(), type)).replaceAll(
                    m -> Matcher.quoteReplacement(value(m.group().charAt(0), step.of(), first, operands)));
            body.append(i == chain.steps().size() - 1 ? "return " + expression + "; " : "auto v" + (operands + i)
                    + " = widen(narrow<" + Types.of(step.result().dtype()) + ">(" + expression + ")); ");
        }
        return new Fused(body.append("}()").toString(), all);
    }

    /** Returns the replacement of one of {@code a b c p q} in a step whose parameters begin at index {@code first}. */
    private static String value(char name, List<Integer> of, int first, int operands) {
        if (name >= 'p') {
            return "s.at[" + (first + name - 'p') + "]";
        }
        int value = of.get(name - 'a');
        return value < operands ? String.valueOf((char) ('a' + value)) : "v" + value;
    }

    private static String of(Unary op) {
        return switch (op) {
            case Unary.Neg _ -> "negative(a)";
            case Unary.Abs _ -> "absolute(a)";
            case Unary.Sign _ -> "a > 0 ? C(1) : a < 0 ? C(-1) : a";
            case Unary.Square _ -> "multiply(a, a)";
            case Unary.Exp _ -> "exp(a)";
            case Unary.Expm1 _ -> "expm1(a)";
            case Unary.Log _ -> "log(a)";
            case Unary.Log1p _ -> "log1p(a)";
            case Unary.Sqrt _ -> "sqrt(a)";
            case Unary.Rsqrt _ -> "C(1) / sqrt(a)";
            case Unary.Reciprocal _ -> "C(1) / a";
            case Unary.Sin _ -> "sin(a)";
            case Unary.Cos _ -> "cos(a)";
            case Unary.Tan _ -> "tan(a)";
            case Unary.Asin _ -> "asin(a)";
            case Unary.Acos _ -> "acos(a)";
            case Unary.Atan _ -> "atan(a)";
            case Unary.Sinh _ -> "sinh(a)";
            case Unary.Cosh _ -> "cosh(a)";
            case Unary.Tanh _ -> "tanh(a)";
            case Unary.Asinh _ -> "asinh(a)";
            case Unary.Acosh _ -> "acosh(a)";
            case Unary.Atanh _ -> "atanh(a)";
            case Unary.Erf _ -> "erf(a)";
            case Unary.Floor _ -> "floor(a)";
            case Unary.Ceil _ -> "ceil(a)";
            case Unary.Round _ -> "rint(a)";
            case Unary.Trunc _ -> "trunc(a)";
            case Unary.Affine _ -> "a * p + q";
            case Unary.PowScalar(double exponent) -> exponent == 2 ? "a * a" : exponent == 3 ? "a * a * a"
                    : "pow(a, p)";
            case Unary.Clamp _ -> "minimum(maximum(a, p), q)";
        };
    }

    /** {@code quick} is the name prefix of functions that are accurate enough for the type. */
    private static String of(Activation op, String quick) {
        return switch (op) {
            case Activation.Relu _ -> "a <= 0 ? C(0) : a";
            case Activation.LeakyRelu _ -> "a > 0 ? a : p * a";
            case Activation.Elu _ -> "a > 0 ? a : p * expm1(a)";
            case Activation.Sigmoid _ -> quick + "sigmoid(a)";
            case Activation.Silu _ -> quick + "silu(a)";
            case Activation.Softplus _ -> "(a > 0 ? a : C(0)) + log1p(exp(-fabs(a)))";
            case Activation.Gelu(boolean tanh) -> "a * " + quick + "normal_cumulative" + by(tanh);
            case Activation.ReluGradient _ -> "a > 0 ? b : C(0)";
            case Activation.SigmoidGradient _ -> "b * a * (C(1) - a)";
            case Activation.TanhGradient _ -> "b * (C(1) - a * a)";
            case Activation.SiluGradient _ -> {
                String sigmoid = quick + "sigmoid(a)";
                yield "b * " + sigmoid + " * (C(1) + a * (C(1) - " + sigmoid + "))";
            }
            case Activation.GeluGradient(boolean tanh) -> "b * " + quick + "gelu_slope" + by(tanh);
        };
    }

    private static String by(boolean tanh) {
        return tanh ? "_by_tanh(a)" : "(a)";
    }

    private static String of(Binary op) {
        return switch (op) {
            case Binary.Add _ -> "add(a, b)";
            case Binary.Sub _ -> "subtract(a, b)";
            case Binary.Mul _ -> "multiply(a, b)";
            case Binary.Div _ -> "a / b";
            case Binary.Pow _ -> "pow(a, b)";
            case Binary.Remainder _ -> "remainder_of(a, b)";
            case Binary.FloorDivide _ -> "floor_divide(a, b)";
            case Binary.Maximum _ -> "maximum(a, b)";
            case Binary.Minimum _ -> "minimum(a, b)";
            case Binary.Atan2 _ -> "atan2(a, b)";
        };
    }

    private static String of(Comparison op) {
        return switch (op) {
            case Comparison.Equal _ -> "a == b";
            case Comparison.NotEqual _ -> "a != b";
            case Comparison.Less _ -> "a < b";
            case Comparison.LessEqual _ -> "a <= b";
            case Comparison.Greater _ -> "a > b";
            case Comparison.GreaterEqual _ -> "a >= b";
            case Comparison.IsNan _ -> "is_nan(a)";
            case Comparison.IsInf _ -> "is_inf(a)";
            case Comparison.IsFinite _ -> "!is_nan(a) && !is_inf(a)";
        };
    }
}
