package dev.starling.tensor.cpu;

import dev.starling.tensor.cpu.jit.Opcode;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Where;

/** Maps operations to opcodes of the generated kernels and their parameters. */
final class ElementwiseOpcodes {
    private static final double[] NONE = {};

    private ElementwiseOpcodes() { }

    static Opcode of(Elementwise op) {
        return switch (op) {
            case Unary unary -> of(unary);
            case Activation activation -> of(activation);
            case Binary binary -> of(binary);
            case Comparison comparison -> of(comparison);
            case Logic.And _ -> Opcode.AND;
            case Logic.Or _ -> Opcode.OR;
            case Logic.Xor _ -> Opcode.XOR;
            case Logic.Not _ -> Opcode.NOT;
            case Where _ -> Opcode.WHERE;
            case Cast _ -> Opcode.CAST;
        };
    }

    /** Returns the operation's parameters, which are the last operands of its opcode. */
    static double[] parameters(Elementwise op) {
        return switch (op) {
            case Unary.Affine(double scale, double shift) -> new double[] {scale, shift};
            case Unary.Clamp(double low, double high) -> new double[] {low, high};
            case Unary.PowScalar(double exponent) when of(op) == Opcode.POW -> new double[] {exponent};
            case Activation.LeakyRelu(double slope) -> new double[] {slope};
            case Activation.Elu(double alpha) -> new double[] {alpha};
            default -> NONE;
        };
    }

    private static Opcode of(Unary op) {
        return switch (op) {
            case Unary.Neg _ -> Opcode.NEG;
            case Unary.Abs _ -> Opcode.ABS;
            case Unary.Sign _ -> Opcode.SIGN;
            case Unary.Square _ -> Opcode.SQUARE;
            case Unary.Exp _ -> Opcode.EXP;
            case Unary.Expm1 _ -> Opcode.EXPM1;
            case Unary.Log _ -> Opcode.LOG;
            case Unary.Log1p _ -> Opcode.LOG1P;
            case Unary.Sqrt _ -> Opcode.SQRT;
            case Unary.Rsqrt _ -> Opcode.RSQRT;
            case Unary.Reciprocal _ -> Opcode.RECIPROCAL;
            case Unary.Sin _ -> Opcode.SIN;
            case Unary.Cos _ -> Opcode.COS;
            case Unary.Tan _ -> Opcode.TAN;
            case Unary.Asin _ -> Opcode.ASIN;
            case Unary.Acos _ -> Opcode.ACOS;
            case Unary.Atan _ -> Opcode.ATAN;
            case Unary.Sinh _ -> Opcode.SINH;
            case Unary.Cosh _ -> Opcode.COSH;
            case Unary.Tanh _ -> Opcode.TANH;
            case Unary.Asinh _ -> Opcode.ASINH;
            case Unary.Acosh _ -> Opcode.ACOSH;
            case Unary.Atanh _ -> Opcode.ATANH;
            case Unary.Erf _ -> Opcode.ERF;
            case Unary.Floor _ -> Opcode.FLOOR;
            case Unary.Ceil _ -> Opcode.CEIL;
            case Unary.Round _ -> Opcode.ROUND;
            case Unary.Trunc _ -> Opcode.TRUNC;
            case Unary.Affine _ -> Opcode.AFFINE;
            case Unary.PowScalar(double exponent) when exponent == 2 -> Opcode.SQUARE;
            case Unary.PowScalar(double exponent) when exponent == -1 -> Opcode.RECIPROCAL;
            case Unary.PowScalar _ -> Opcode.POW;
            case Unary.Clamp _ -> Opcode.CLAMP;
        };
    }

    private static Opcode of(Activation op) {
        return switch (op) {
            case Activation.Relu _ -> Opcode.RELU;
            case Activation.LeakyRelu _ -> Opcode.LEAKY_RELU;
            case Activation.Elu _ -> Opcode.ELU;
            case Activation.Sigmoid _ -> Opcode.SIGMOID;
            case Activation.Silu _ -> Opcode.SILU;
            case Activation.Softplus _ -> Opcode.SOFTPLUS;
            case Activation.Gelu(boolean tanh) -> tanh ? Opcode.GELU_TANH : Opcode.GELU;
            case Activation.ReluGradient _ -> Opcode.RELU_GRADIENT;
            case Activation.SigmoidGradient _ -> Opcode.SIGMOID_GRADIENT;
            case Activation.TanhGradient _ -> Opcode.TANH_GRADIENT;
            case Activation.SiluGradient _ -> Opcode.SILU_GRADIENT;
            case Activation.GeluGradient(boolean tanh) -> tanh ? Opcode.GELU_TANH_GRADIENT : Opcode.GELU_GRADIENT;
        };
    }

    private static Opcode of(Binary op) {
        return switch (op) {
            case Binary.Add _ -> Opcode.ADD;
            case Binary.Sub _ -> Opcode.SUB;
            case Binary.Mul _ -> Opcode.MUL;
            case Binary.Div _ -> Opcode.DIV;
            case Binary.Pow _ -> Opcode.POW;
            case Binary.Remainder _ -> Opcode.REMAINDER;
            case Binary.FloorDivide _ -> Opcode.FLOOR_DIVIDE;
            case Binary.Maximum _ -> Opcode.MAXIMUM;
            case Binary.Minimum _ -> Opcode.MINIMUM;
            case Binary.Atan2 _ -> Opcode.ATAN2;
        };
    }

    private static Opcode of(Comparison op) {
        return switch (op) {
            case Comparison.Equal _ -> Opcode.EQ;
            case Comparison.NotEqual _ -> Opcode.NE;
            case Comparison.Less _ -> Opcode.LT;
            case Comparison.LessEqual _ -> Opcode.LE;
            case Comparison.Greater _ -> Opcode.GT;
            case Comparison.GreaterEqual _ -> Opcode.GE;
            case Comparison.IsNan _ -> Opcode.IS_NAN;
            case Comparison.IsInf _ -> Opcode.IS_INF;
            case Comparison.IsFinite _ -> Opcode.IS_FINITE;
        };
    }
}
