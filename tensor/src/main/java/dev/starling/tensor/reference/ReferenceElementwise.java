package dev.starling.tensor.reference;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Where;

/** Elementwise operations: one expression for floats and, if the operation supports them, one for integers. */
final class ReferenceElementwise {
    private ReferenceElementwise() {
    }

    static void run(Elementwise op, Tensor[] in, Tensor out) {
        Shape shape = out.shape();
        Elements y = Elements.of(out);
        Elements a = Elements.of(in[0], shape);
        Elements b = in.length > 1 ? Elements.of(in[1], shape) : a;
        Elements c = in.length > 2 ? Elements.of(in[2], shape) : a;
        for (long i = 0; i < shape.count(); i++) {
            switch (op) {
                case Cast o -> y.copy(i, a, i);
                case Where o -> y.copy(i, a.getLong(i) != 0 ? b : c, i);
                case Activation o -> y.set(i, ScalarFunctions.of(o, a.get(i), b.get(i)));
                case Unary.Clamp o when !a.floating() -> y.setLong(i, saturated(out.dtype(), integer(o, a.getLong(i))));
                case Unary o when a.floating() -> y.set(i, ScalarFunctions.of(o, a.get(i)));
                case Unary o -> y.setLong(i, integer(o, a.getLong(i)));
                case Binary o when a.floating() -> y.set(i, floating(o, a.get(i), b.get(i)));
                case Binary o -> y.setLong(i, integer(o, a.getLong(i), b.getLong(i)));
                case Comparison o when a.floating() -> y.setLong(i, floating(o, a.get(i), b.get(i)) ? 1 : 0);
                case Comparison o -> y.setLong(i, integer(o, a.getLong(i), b.getLong(i)) ? 1 : 0);
                case Logic o -> y.setLong(i, logic(o, a.getLong(i), b.getLong(i), a.bool()));
            }
        }
    }

    private static long integer(Unary op, long x) {
        return switch (op) {
            case Unary.Neg o -> -x;
            case Unary.Abs o -> Math.abs(x);
            case Unary.Sign o -> Long.signum(x);
            case Unary.Square o -> x * x;
            case Unary.Clamp o -> {
                long raised = x < o.low() ? (long) o.low() : x;
                yield raised > o.high() ? (long) o.high() : raised;
            }
            case Unary.Exp o -> throw analysis(o);
            case Unary.Expm1 o -> throw analysis(o);
            case Unary.Log o -> throw analysis(o);
            case Unary.Log1p o -> throw analysis(o);
            case Unary.Sqrt o -> throw analysis(o);
            case Unary.Rsqrt o -> throw analysis(o);
            case Unary.Reciprocal o -> throw analysis(o);
            case Unary.Sin o -> throw analysis(o);
            case Unary.Cos o -> throw analysis(o);
            case Unary.Tan o -> throw analysis(o);
            case Unary.Asin o -> throw analysis(o);
            case Unary.Acos o -> throw analysis(o);
            case Unary.Atan o -> throw analysis(o);
            case Unary.Sinh o -> throw analysis(o);
            case Unary.Cosh o -> throw analysis(o);
            case Unary.Tanh o -> throw analysis(o);
            case Unary.Asinh o -> throw analysis(o);
            case Unary.Acosh o -> throw analysis(o);
            case Unary.Atanh o -> throw analysis(o);
            case Unary.Erf o -> throw analysis(o);
            case Unary.Floor o -> throw analysis(o);
            case Unary.Ceil o -> throw analysis(o);
            case Unary.Round o -> throw analysis(o);
            case Unary.Trunc o -> throw analysis(o);
            case Unary.Affine o -> throw analysis(o);
            case Unary.PowScalar o -> throw analysis(o);
        };
    }

    /** Returns the number of the type that is nearest to {@code value}; the bound of a range may be beyond the type. */
    private static long saturated(DType type, long value) {
        return switch (type) {
            case I32 -> Math.clamp(value, Integer.MIN_VALUE, Integer.MAX_VALUE);
            case I8 -> Math.clamp(value, Byte.MIN_VALUE, Byte.MAX_VALUE);
            case U8 -> Math.clamp(value, 0, 255);
            default -> value;
        };
    }

    private static AssertionError analysis(Elementwise op) {
        return new AssertionError(op.name() + " needs a floating type, but infer accepted another");
    }

    private static double floating(Binary op, double a, double b) {
        return switch (op) {
            case Binary.Add o -> a + b;
            case Binary.Sub o -> a - b;
            case Binary.Mul o -> a * b;
            case Binary.Div o -> a / b;
            case Binary.Pow o -> ScalarFunctions.pow(a, b);
            case Binary.Remainder o -> ScalarFunctions.remainder(a, b);
            case Binary.FloorDivide o -> ScalarFunctions.floorDivide(a, b);
            case Binary.Maximum o -> Math.max(a, b);
            case Binary.Minimum o -> Math.min(a, b);
            case Binary.Atan2 o -> StrictMath.atan2(a, b);
        };
    }

    private static long integer(Binary op, long a, long b) {
        return switch (op) {
            case Binary.Add o -> a + b;
            case Binary.Sub o -> a - b;
            case Binary.Mul o -> a * b;
            case Binary.Remainder o -> b == 0 ? 0 : Math.floorMod(a, b);
            case Binary.FloorDivide o -> b == 0 ? 0 : Math.floorDiv(a, b);
            case Binary.Maximum o -> Math.max(a, b);
            case Binary.Minimum o -> Math.min(a, b);
            case Binary.Div o -> throw analysis(o);
            case Binary.Pow o -> throw analysis(o);
            case Binary.Atan2 o -> throw analysis(o);
        };
    }

    private static boolean floating(Comparison op, double a, double b) {
        return switch (op) {
            case Comparison.Equal o -> a == b;
            case Comparison.NotEqual o -> a != b;
            case Comparison.Less o -> a < b;
            case Comparison.LessEqual o -> a <= b;
            case Comparison.Greater o -> a > b;
            case Comparison.GreaterEqual o -> a >= b;
            case Comparison.IsNan o -> Double.isNaN(a);
            case Comparison.IsInf o -> Double.isInfinite(a);
            case Comparison.IsFinite o -> Double.isFinite(a);
        };
    }

    private static boolean integer(Comparison op, long a, long b) {
        return switch (op) {
            case Comparison.Equal o -> a == b;
            case Comparison.NotEqual o -> a != b;
            case Comparison.Less o -> a < b;
            case Comparison.LessEqual o -> a <= b;
            case Comparison.Greater o -> a > b;
            case Comparison.GreaterEqual o -> a >= b;
            case Comparison.IsNan o -> false;
            case Comparison.IsInf o -> false;
            case Comparison.IsFinite o -> true;
        };
    }

    private static long logic(Logic op, long a, long b, boolean bool) {
        return switch (op) {
            case Logic.And o -> a & b;
            case Logic.Or o -> a | b;
            case Logic.Xor o -> a ^ b;
            case Logic.Not o -> bool ? 1 - a : ~a;
        };
    }
}
