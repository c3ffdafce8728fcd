package dev.starling.tensor;

import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Comparison;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.FormulaOp;
import dev.starling.tensor.op.Logic;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Where;

/**
 * Elementwise operations. Two operands are broadcast to a common shape and converted to their {@link DType#promote
 * promoted} type. A Java number is converted to the tensor's type; a number with a fraction first converts an integer
 * tensor to a floating type. Comparisons of integers with a Java number are exact, whatever the number. Functions of
 * analysis convert integers to {@link DType#toFloating floating} numbers.
 */
public sealed interface Arithmetic permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    private Tensor unary(Elementwise op) {
        return Tensor.compute(op, self());
    }

    private Tensor floating(Elementwise op) {
        return Tensor.compute(op, self().to(self().dtype().toFloating()));
    }

    private Tensor binary(Elementwise op, Tensor b) {
        Tensor a = self();
        if (a.dtype() == b.dtype()) {
            return Tensor.compute(op, a, b);
        }
        DType common = DType.promote(a.dtype(), b.dtype());
        return Tensor.compute(op, a.to(common), b.to(common));
    }

    private Tensor compared(FormulaOp op, double b) {
        if (self().dtype().isFloating()) {
            return Tensor.compute(op, self(), self().scalarLike(b));
        }
        Tensor a = self().to(typeToCompare(b));
        // In f64 the largest integers are rounded to 2^63.
        boolean beyond = b < -0x1p63 || b >= 0x1p63;
        return Tensor.compute(op, a, a.scalarLike(beyond ? Math.copySign(Double.POSITIVE_INFINITY, b) : b));
    }

    /** Returns a type in which this tensor of integers or booleans and a number are compared without rounding. */
    private DType typeToCompare(double number) {
        DType type = self().dtype();
        if (number != Math.rint(number) || number < -0x1p63 || number >= 0x1p63) {
            return number == (float) number ? type.toFloating() : DType.F64;
        }
        boolean fits = switch (type) {
            case I64 -> true;
            case I32 -> number == (int) number;
            case I8 -> number == (byte) number;
            case U8 -> number >= 0 && number < 256;
            case BOOL, F32, F64, BF16, F16 -> false;
        };
        return fits ? type : DType.I64;
    }

    /**
     * Returns this tensor in the type in which it meets the Java number {@code value}: floating if the value has a
     * fraction.
     */
    private Tensor promotedFor(double value) {
        boolean whole = value == Math.rint(value) && !Double.isInfinite(value);
        if (self().dtype() == DType.BOOL) {
            return self().to(whole ? DType.I64 : DType.F32);
        }
        return self().dtype().isFloating() || whole ? self() : self().to(self().dtype().toFloating());
    }

    /** Returns the power of integers with a whole exponent that is not negative; products wrap around. */
    private static Tensor product(Tensor a, double exponent) {
        if (exponent < 2) {
            return exponent == 0 ? a.onesLike() : a;
        }
        Tensor square = product(a, Math.floor(exponent / 2)).square();
        return exponent % 2 == 0 ? square : square.mul(a);
    }

    /**
     * Returns the elements converted to {@code dtype}, or this tensor if it has that type already. See {@link Cast}.
     */
    default Tensor to(DType dtype) {
        return dtype == self().dtype() ? self() : Tensor.compute(new Cast(dtype), self());
    }

    /** Returns a scalar of this tensor's type, on its device. */
    default Tensor scalarLike(double value) {
        return Tensor.full(new Spec(self().dtype(), Shape.scalar(), self().device()), value);
    }

    /** Returns zeros of this tensor's type and shape, on its device. */
    default Tensor zerosLike() {
        return Tensor.full(self().spec(), 0);
    }

    /** Returns ones of this tensor's type and shape, on its device. */
    default Tensor onesLike() {
        return Tensor.full(self().spec(), 1);
    }

    // ---- two operands ----

    /** Returns a + b. */
    default Tensor add(Tensor b) {
        return binary(Binary.ADD, b);
    }

    /** Returns a - b. */
    default Tensor sub(Tensor b) {
        return binary(Binary.SUB, b);
    }

    /** Returns a·b. */
    default Tensor mul(Tensor b) {
        return binary(Binary.MUL, b);
    }

    /** Returns aᵇ. */
    default Tensor pow(Tensor b) {
        return binary(Binary.POW, b);
    }

    /** Returns a - ⌊a/b⌋·b. */
    default Tensor remainder(Tensor b) {
        return binary(Binary.REMAINDER, b);
    }

    /** Returns ⌊a/b⌋. */
    default Tensor floorDivide(Tensor b) {
        return binary(Binary.FLOOR_DIVIDE, b);
    }

    /** Returns the larger of a and b; NaN if either is NaN. */
    default Tensor maximum(Tensor b) {
        return binary(Binary.MAXIMUM, b);
    }

    /** Returns the smaller of a and b; NaN if either is NaN. */
    default Tensor minimum(Tensor b) {
        return binary(Binary.MINIMUM, b);
    }

    /** Returns a/b; the result is floating even for integers. */
    default Tensor div(Tensor b) {
        DType common = DType.promote(self().dtype(), b.dtype()).toFloating();
        return Tensor.compute(Binary.DIV, self().to(common), b.to(common));
    }

    /** Returns the angle of the point {@code (b, this)} in radians. */
    default Tensor atan2(Tensor b) {
        DType common = DType.promote(self().dtype(), b.dtype()).toFloating();
        return Tensor.compute(Binary.ATAN2, self().to(common), b.to(common));
    }

    /** Returns a + b. */
    default Tensor add(double b) {
        Tensor a = promotedFor(b);
        return a.dtype().isFloating() ? Tensor.compute(new Unary.Affine(1, b), a) : a.add(a.scalarLike(b));
    }

    /** Returns a - b. */
    default Tensor sub(double b) {
        Tensor a = promotedFor(b);
        return a.dtype().isFloating() ? a.add(-b) : a.sub(a.scalarLike(b));
    }

    /** Returns a·b. */
    default Tensor mul(double b) {
        Tensor a = promotedFor(b);
        // The sum with -0.0, unlike that with 0.0, keeps the sign of a product of zero.
        return a.dtype().isFloating() ? Tensor.compute(new Unary.Affine(b, -0.0), a) : a.mul(a.scalarLike(b));
    }

    /** Returns a/b; the result is floating even for integers. */
    default Tensor div(double b) {
        Tensor a = self().to(self().dtype().toFloating());
        return a.div(a.scalarLike(b));
    }

    /** Returns aᵇ. Integers with a whole b ≥ 0 are multiplied in their type. */
    default Tensor pow(double b) {
        Tensor a = b < 0 ? self().to(self().dtype().toFloating()) : promotedFor(b);
        return a.dtype().isFloating() ? Tensor.compute(new Unary.PowScalar(b), a) : product(a, b);
    }

    /** Returns each element clamped to [low, high]. */
    default Tensor clamp(double low, double high) {
        boolean whole = low == Math.rint(low) && high == Math.rint(high);
        Tensor a = whole ? self() : self().to(self().dtype().toFloating());
        return Tensor.compute(new Unary.Clamp(low, high), a);
    }

    // ---- one operand ----

    /** Returns -x. */
    default Tensor neg() {
        return unary(Unary.NEG);
    }

    /** Returns |x|. */
    default Tensor abs() {
        return unary(Unary.ABS);
    }

    /** Returns -1, 0 or 1. */
    default Tensor sign() {
        return unary(Unary.SIGN);
    }

    /** Returns x². */
    default Tensor square() {
        return unary(Unary.SQUARE);
    }

    /** Returns eˣ. */
    default Tensor exp() {
        return floating(Unary.EXP);
    }

    /** Returns eˣ - 1, accurate near 0. */
    default Tensor expm1() {
        return floating(Unary.EXPM1);
    }

    /** Returns the natural logarithm. */
    default Tensor log() {
        return floating(Unary.LOG);
    }

    /** Returns ln(1 + x), accurate near 0. */
    default Tensor log1p() {
        return floating(Unary.LOG1P);
    }

    /** Returns the square root. */
    default Tensor sqrt() {
        return floating(Unary.SQRT);
    }

    /** Returns 1/√x. */
    default Tensor rsqrt() {
        return floating(Unary.RSQRT);
    }

    /** Returns 1/x. */
    default Tensor reciprocal() {
        return floating(Unary.RECIPROCAL);
    }

    /** Returns the sine. */
    default Tensor sin() {
        return floating(Unary.SIN);
    }

    /** Returns the cosine. */
    default Tensor cos() {
        return floating(Unary.COS);
    }

    /** Returns the tangent. */
    default Tensor tan() {
        return floating(Unary.TAN);
    }

    /** Returns the arc sine. */
    default Tensor asin() {
        return floating(Unary.ASIN);
    }

    /** Returns the arc cosine. */
    default Tensor acos() {
        return floating(Unary.ACOS);
    }

    /** Returns the arc tangent. */
    default Tensor atan() {
        return floating(Unary.ATAN);
    }

    /** Returns the hyperbolic sine. */
    default Tensor sinh() {
        return floating(Unary.SINH);
    }

    /** Returns the hyperbolic cosine. */
    default Tensor cosh() {
        return floating(Unary.COSH);
    }

    /** Returns the hyperbolic tangent. */
    default Tensor tanh() {
        return floating(Unary.TANH);
    }

    /** Returns the inverse hyperbolic sine. */
    default Tensor asinh() {
        return floating(Unary.ASINH);
    }

    /** Returns the inverse hyperbolic cosine. */
    default Tensor acosh() {
        return floating(Unary.ACOSH);
    }

    /** Returns the inverse hyperbolic tangent. */
    default Tensor atanh() {
        return floating(Unary.ATANH);
    }

    /** Returns the error function. */
    default Tensor erf() {
        return floating(Unary.ERF);
    }

    /** Returns the largest integer not above x. */
    default Tensor floor() {
        return self().dtype().isFloating() ? unary(Unary.FLOOR) : self();
    }

    /** Returns the smallest integer not below x. */
    default Tensor ceil() {
        return self().dtype().isFloating() ? unary(Unary.CEIL) : self();
    }

    /** Returns the nearest integer, ties to even. */
    default Tensor round() {
        return self().dtype().isFloating() ? unary(Unary.ROUND) : self();
    }

    /** Returns x rounded towards 0. */
    default Tensor trunc() {
        return self().dtype().isFloating() ? unary(Unary.TRUNC) : self();
    }

    /** Returns max(x, 0). */
    default Tensor relu() {
        return floating(Activation.RELU);
    }

    /** Returns 1/(1 + e⁻ˣ). */
    default Tensor sigmoid() {
        return floating(Activation.SIGMOID);
    }

    /** Returns x/(1 + e⁻ˣ). */
    default Tensor silu() {
        return floating(Activation.SILU);
    }

    /** Returns ln(1 + eˣ). */
    default Tensor softplus() {
        return floating(Activation.SOFTPLUS);
    }

    /** Returns x·Φ(x), computed with the error function. */
    default Tensor gelu() {
        return floating(Activation.GELU);
    }

    /** Returns x where x &gt; 0, else slope·x. */
    default Tensor leakyRelu(double slope) {
        return floating(new Activation.LeakyRelu(slope));
    }

    /** Returns x where x &gt; 0, else alpha·(eˣ - 1). */
    default Tensor elu(double alpha) {
        return floating(new Activation.Elu(alpha));
    }

    // ---- comparison and logic ----

    /** Returns whether a = b, element by element. */
    default Tensor eq(Tensor b) {
        return binary(Comparison.EQUAL, b);
    }

    /** Returns whether a = b, element by element. */
    default Tensor eq(double b) {
        return compared(Comparison.EQUAL, b);
    }

    /** Returns whether a ≠ b, element by element. */
    default Tensor ne(Tensor b) {
        return binary(Comparison.NOT_EQUAL, b);
    }

    /** Returns whether a ≠ b, element by element. */
    default Tensor ne(double b) {
        return compared(Comparison.NOT_EQUAL, b);
    }

    /** Returns whether a &lt; b, element by element. */
    default Tensor lt(Tensor b) {
        return binary(Comparison.LESS, b);
    }

    /** Returns whether a &lt; b, element by element. */
    default Tensor lt(double b) {
        return compared(Comparison.LESS, b);
    }

    /** Returns whether a ≤ b, element by element. */
    default Tensor le(Tensor b) {
        return binary(Comparison.LESS_EQUAL, b);
    }

    /** Returns whether a ≤ b, element by element. */
    default Tensor le(double b) {
        return compared(Comparison.LESS_EQUAL, b);
    }

    /** Returns whether a &gt; b, element by element. */
    default Tensor gt(Tensor b) {
        return binary(Comparison.GREATER, b);
    }

    /** Returns whether a &gt; b, element by element. */
    default Tensor gt(double b) {
        return compared(Comparison.GREATER, b);
    }

    /** Returns whether a ≥ b, element by element. */
    default Tensor ge(Tensor b) {
        return binary(Comparison.GREATER_EQUAL, b);
    }

    /** Returns whether a ≥ b, element by element. */
    default Tensor ge(double b) {
        return compared(Comparison.GREATER_EQUAL, b);
    }

    /** Returns whether x is NaN, element by element. */
    default Tensor isNan() {
        return unary(Comparison.IS_NAN);
    }

    /** Returns whether x is infinite, element by element. */
    default Tensor isInf() {
        return unary(Comparison.IS_INF);
    }

    /** Returns whether x is neither NaN nor infinite, element by element. */
    default Tensor isFinite() {
        return unary(Comparison.IS_FINITE);
    }

    /** Returns a ∧ b: logical for booleans, bitwise for integers. */
    default Tensor and(Tensor b) {
        return binary(Logic.AND, b);
    }

    /** Returns a ∨ b: logical for booleans, bitwise for integers. */
    default Tensor or(Tensor b) {
        return binary(Logic.OR, b);
    }

    /** Returns a ⊕ b: logical for booleans, bitwise for integers. */
    default Tensor xor(Tensor b) {
        return binary(Logic.XOR, b);
    }

    /** Returns ¬a: logical for booleans, bitwise for integers. */
    default Tensor not() {
        return unary(Logic.NOT);
    }

    /** Returns {@code a} where this boolean tensor is true and {@code b} elsewhere. */
    default Tensor where(Tensor a, Tensor b) {
        DType common = DType.promote(a.dtype(), b.dtype());
        return Tensor.compute(new Where(), self(), a.to(common), b.to(common));
    }

    /** Returns this tensor with {@code value} where the boolean {@code mask} is true. */
    default Tensor maskedFill(Tensor mask, double value) {
        boolean whole = value == Math.rint(value) && !Double.isInfinite(value);
        Tensor a = whole ? self() : self().to(self().dtype().toFloating());
        return Tensor.compute(new Where(), mask, a.scalarLike(value), a);
    }
}
