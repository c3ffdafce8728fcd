package dev.starling.tensor.cpu.jit;

/**
 * Functions of f32 composed of primitives, within about two units in the last place, tanh and erf within six.
 * Polynomials and rational functions are minimax fits of the relative error.
 */
final class Approximation {
    private static final double LOG2_E = 1.4426950408889634;
    /** ln 2 as the sum of two parts. The first has trailing zeros, so that its product with an exponent is exact. */
    private static final double LN2_HIGH = 0.693145751953125;
    private static final double LN2_LOW = 1.4286068202862268e-06;
    /** Adding 1.5 * 2^23 leaves the nearest integer in the low bits of a float. */
    private static final double ROUNDER = 0x1.8p23;
    private static final int ROUNDER_BITS = 0x4B400000;
    private static final int SQRT_HALF_BITS = 0x3F3504F3;
    private static final double[] EXP = {0.5, 0.1666666567325592, 0.04166635870933533, 0.008333389647305012,
        0.0013940719654783607, 0.0001984588598133996};
    private static final double[] LOG = {-0.5, 0.3333331346511841, -0.25000008940696716, 0.2000211924314499,
        -0.1666799634695053, 0.14219552278518677, -0.1240558847784996, 0.11888160556554794, -0.11675655096769333,
        0.06746648252010345};
    private static final double[] TANH_P = {1.0, 0.1337973028421402, 0.003494048258289695, 2.0583689547493123e-05,
        1.3319331415573288e-08};
    private static final double[] TANH_Q = {1.0, 0.4671304523944855, 0.025871125981211662, 0.0003283114347141236,
        7.762131417621276e-07};
    private static final double[] ERF_P = {1.1283791065216064, 0.19077928364276886, 0.05278968811035156,
        0.0037794136442244053, 0.000284804031252861, 2.0420043256308418e-06};
    private static final double[] ERF_Q = {1.0, 0.5024064779281616, 0.1142556443810463, 0.014997048303484917,
        0.0011651648674160242, 3.800418198807165e-05};

    private final LoopBody body;

    Approximation(LoopBody body) {
        this.body = body;
    }

    private int f(double value) {
        return body.constant(Lane.F32, value);
    }

    private int i(int value) {
        return body.bits(Lane.I32, value);
    }

    /** Reduces {@code x = n ln 2 + r}; returns n as a float with {@link #ROUNDER} added, and r. */
    private int[] reduce(int x) {
        int shifted = body.fma(x, f(LOG2_E), f(ROUNDER));
        int n = body.sub(shifted, f(ROUNDER));
        int r = body.fma(n, f(-LN2_HIGH), x);
        r = body.fma(n, f(-LN2_LOW), r);
        return new int[] {shifted, r};
    }

    /** {@code e^r - 1} of a reduced r. */
    private int expm1Reduced(int r) {
        return body.fma(body.mul(r, r), body.polynomial(r, EXP), r);
    }

    /** {@code 2^n}, n from -126 to 127. */
    private int powerOfTwo(int n) {
        return body.reinterpret(body.shift(Primitive.SHL, body.add(n, i(127)), 23));
    }

    /** The integer in the low bits of {@code shifted}. */
    private int integer(int shifted) {
        return body.sub(body.reinterpret(shifted), i(ROUNDER_BITS));
    }

    /** e^x, scaled in two steps so that results below 2^-126 and the largest results are correct. */
    int exp(int x) {
        int[] reduced = reduce(body.clamp(x, -104, 89));
        int n = integer(reduced[0]);
        int half = body.shift(Primitive.SAR, n, 1);
        int power = body.add(expm1Reduced(reduced[1]), f(1));
        return body.mul(body.mul(power, powerOfTwo(half)), powerOfTwo(body.sub(n, half)));
    }

    int expm1(int x) {
        int[] reduced = reduce(body.clamp(x, -30, 89));
        int scale = powerOfTwo(body.sub(integer(reduced[0]), i(1)));
        int half = body.fma(expm1Reduced(reduced[1]), scale, body.sub(scale, f(0.5)));
        return body.select(body.less(body.abs(x), f(0x1p-24)), x, body.add(half, half));
    }

    int log(int x) {
        int tiny = body.less(x, f(0x1p-126));
        int bits = body.reinterpret(body.select(tiny, body.mul(x, f(0x1p24)), x));
        int shifted = body.sub(bits, i(SQRT_HALF_BITS));
        int exponent = body.convert(Lane.F32, body.shift(Primitive.SAR, shifted, 23));
        exponent = body.add(exponent, body.select(tiny, f(-24), f(0)));
        int mantissa = body.reinterpret(body.add(body.and(shifted, i(0x7FFFFF)), i(SQRT_HALF_BITS)));
        int r = body.sub(mantissa, f(1));
        int tail = body.fma(body.mul(r, r), body.polynomial(r, LOG), body.mul(exponent, f(LN2_LOW)));
        int log = body.fma(exponent, f(LN2_HIGH), body.add(r, tail));
        int zero = body.compare(Primitive.EQ, x, f(0));
        int outside = body.select(zero, f(Double.NEGATIVE_INFINITY), f(Double.NaN));
        log = body.select(body.less(f(0), x), log, outside);
        return body.select(body.compare(Primitive.EQ, x, f(Double.POSITIVE_INFINITY)), x, log);
    }

    /** {@code log(u)} of {@code u = 1 + x}, plus the part of x lost in rounding u, divided by u. */
    int log1p(int x) {
        int u = body.add(x, f(1));
        int lost = body.sub(x, body.sub(u, f(1)));
        int log = log(u);
        int corrected = body.add(log, body.div(lost, u));
        int regular = body.and(body.less(f(0), u), body.less(u, f(Double.POSITIVE_INFINITY)));
        return body.select(body.less(body.abs(x), f(0x1p-24)), x, body.select(regular, corrected, log));
    }

    private int rational(int x, double[] p, double[] q) {
        int square = body.mul(x, x);
        return body.div(body.mul(x, body.polynomial(square, p)), body.polynomial(square, q));
    }

    int tanh(int x) {
        return body.clamp(rational(body.clamp(x, -9.02, 9.02), TANH_P, TANH_Q), -1, 1);
    }

    int erf(int x) {
        return body.clamp(rational(body.clamp(x, -3.93, 3.93), ERF_P, ERF_Q), -1, 1);
    }
}
