package dev.starling.tensor.cpu.jit;

/**
 * {@code e^x} and the hyperbolic functions in f64 lanes, composed of primitives. Polynomials are minimax fits of the
 * relative error; the brief ones, exact to 36 bits or more, serve results that are rounded to f32.
 */
final class Exponential {
    private static final double LOG2_E = 1.4426950408889634;
    /** ln 2 is the sum of these two parts. */
    private static final double LN2_HIGH = 0x1.62e42fefa39efp-1;
    private static final double LN2_LOW = 0x1.abc9e3b39803fp-56;
    /** Adding 1.5 * 2^52 leaves the nearest integer in the low bits of a double. */
    private static final double ROUNDER = 0x1.8p52;
    /** {@code (e^r - 1 - r) / r^2} for |r| up to ln 2 / 2. */
    private static final double[] EXP = {0.5, 0.16666666666666677, 0.0416666666666667, 0.00833333333332161,
        0.0013888888888866704, 0.0001984126988619381, 2.4801587360788393e-05, 2.7557244128443404e-06,
        2.755724257053885e-07, 2.5109068982422424e-08, 2.0924500910565217e-09};
    private static final double[] EXP_BRIEF = {0.4999999999980157, 0.16666666666598703, 0.04166666688944037,
        0.008333333377626066, 0.0013888821853091156, 0.00019841175312641077, 2.4876105601304858e-05,
        2.7639355058066475e-06};
    /** {@code (sinh(x) / x - 1) / x^2} in x^2 for |x| up to 1. */
    private static final double[] SINH = {0.16666666666666669, 0.008333333333333137, 0.0001984126984143851,
        2.755731915506331e-06, 2.5052123443656602e-08, 1.605723671407442e-10, 7.759425478453443e-13};
    private static final double[] SINH_BRIEF = {0.16666666667070965, 0.00833333327612263, 0.00019841296122132898,
        2.7552053699659676e-06, 2.553029525351153e-08};
    /** {@code (tanh(x) / x - 1) / x^2} in x^2 for |x| up to 5/8. */
    private static final double[] TANH = {-0.33333333333333315, 0.13333333333329858, -0.05396825396611726,
        0.021869488470176054, -0.008863234333831375, 0.003592114194346387, -0.0014557271136596806,
        0.0005894564434883945, -0.0002370239230471501, 9.157866942779691e-05, -3.0206521970391668e-05,
        6.0505020926015445e-06};

    private final LoopBody body;
    private final boolean brief;

    Exponential(LoopBody body, boolean brief) {
        this.body = body;
        this.brief = brief;
    }

    /** {@code x = n ln 2 + rest + lost}: n as a double and as an integer. */
    private record Reduced(int n, int integer, int rest, int lost) { }

    private Reduced reduce(int x) {
        int shifted = body.fma(x, body.f64(LOG2_E), body.f64(ROUNDER));
        int n = body.sub(shifted, body.f64(ROUNDER));
        int first = body.fma(n, body.f64(-LN2_HIGH), x);
        int rest = body.fma(n, body.f64(-LN2_LOW), first);
        int lost = brief ? -1 : body.fma(n, body.f64(-LN2_LOW), body.sub(first, rest));
        return new Reduced(n, integer(shifted), rest, lost);
    }

    /** The integer in the low bits of {@code shifted}. */
    private int integer(int shifted) {
        return body.sub(body.reinterpret(shifted), body.i64(Double.doubleToRawLongBits(ROUNDER)));
    }

    /** {@code 2^n}, n from -1022 to 1023. */
    private int powerOfTwo(int n) {
        return body.reinterpret(body.shift(Primitive.SHL, body.add(n, body.i64(1023)), 52));
    }

    /** {@code e^r - 1 - r} of a reduced r. */
    private int tail(int r) {
        return body.mul(body.mul(r, r), body.polynomial(r, brief ? EXP_BRIEF : EXP));
    }

    /**
     * {@code e^r * 2^n * factor}, scaled in two steps so that results below 2^-1022 and the largest results are
     * correct.
     */
    private int scale(Reduced reduced, int rest, int shift, int factor) {
        int power = body.add(body.add(rest, tail(rest)), body.f64(1));
        int n = shift == 0 ? reduced.integer : body.add(reduced.integer, body.i64(shift));
        if (brief) {
            return body.mul(power, powerOfTwo(n));
        }
        int half = integer(body.fma(reduced.n, body.f64(0.5), body.f64(ROUNDER)));
        int scaled = body.mul(power, powerOfTwo(half));
        return body.mul(factor < 0 ? scaled : body.mul(scaled, factor), powerOfTwo(body.sub(n, half)));
    }

    private int exp(int x, int shift, int factor) {
        Reduced reduced = reduce(x);
        return scale(reduced, reduced.rest, shift, factor);
    }

    int exp(int x) {
        return exp(body.clamp(x, -800, 710), 0, -1);
    }

    /** {@code e^-|x|}. */
    int decay(int x) {
        return exp(body.clampBelow(body.neg(body.abs(x)), -800), 0, -1);
    }

    /**
     * {@code factor * e^-|x|} for a factor up to 800 in magnitude; for the smallest powers the result is rounded once.
     */
    int decay(int x, int factor) {
        return exp(body.clampBelow(body.neg(body.abs(x)), -800), 0, factor);
    }

    /** {@code e^(x.high + x.low)}. */
    int exp(Pair x) {
        double limit = brief ? 200 : 800;
        int bounded = body.clamp(x.high(), -limit, limit);
        Reduced reduced = reduce(bounded);
        if (brief) {
            return scale(reduced, reduced.rest, 0, -1);
        }
        int isBounded = body.less(body.abs(x.high()), body.f64(limit));
        int lost = body.add(reduced.lost, body.select(isBounded, x.low(), body.f64(0)));
        return scale(reduced, body.add(reduced.rest, lost), 0, -1);
    }

    int expm1(int x) {
        Reduced reduced = reduce(body.clamp(x, -40, 710));
        int scale = powerOfTwo(body.sub(reduced.integer, body.i64(1)));
        Pair sum = Pair.ordered(body, body.sub(scale, body.f64(0.5)), body.mul(scale, reduced.rest));
        int rest = body.fma(scale, body.add(tail(reduced.rest), reduced.lost), sum.low());
        int half = body.add(sum.high(), rest);
        return body.select(body.less(body.abs(x), body.f64(0x1p-54)), x, body.add(half, half));
    }

    /** {@code e^|x| / 2}. */
    private int half(int x) {
        return exp(body.clampAbove(body.abs(x), brief ? 200 : 712), -1, -1);
    }

    int sinh(int x) {
        int half = half(x);
        int large = body.sub(half, body.div(body.f64(0.25), half));
        int square = body.mul(x, x);
        int small = body.fma(body.mul(x, square), body.polynomial(square, brief ? SINH_BRIEF : SINH), x);
        return body.select(body.less(body.abs(x), body.f64(1)), small, body.withSign(large, x));
    }

    int cosh(int x) {
        int half = half(x);
        return body.add(half, body.div(body.f64(0.25), half));
    }

    int tanh(int x) {
        int a = body.abs(x);
        int power = exp(body.clampAbove(body.add(a, a), 40), 0, -1);
        int large = body.sub(body.f64(1), body.div(body.f64(2), body.add(power, body.f64(1))));
        int square = body.mul(a, a);
        int small = body.fma(body.mul(a, square), body.polynomial(square, TANH), a);
        return body.withSign(body.select(body.less(a, body.f64(0.625)), small, large), x);
    }
}
