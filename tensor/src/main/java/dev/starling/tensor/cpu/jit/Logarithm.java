package dev.starling.tensor.cpu.jit;

/**
 * Logarithms, powers and the inverse hyperbolic functions in f64 lanes, composed of primitives. Polynomials are minimax
 * fits of the relative error; the brief ones, exact to 36 bits or more, serve results that are rounded to f32.
 */
final class Logarithm {
    private static final double INFINITY = Double.POSITIVE_INFINITY;
    private static final double LN2 = 0x1.62e42fefa39efp-1;
    /** ln 2 as the sum of two parts. The first has trailing zeros, so that its product with an exponent is exact. */
    private static final double LN2_HIGH = 0x1.62e42fefa38p-1;
    private static final double LN2_LOW = 0x1.ef35793c7673p-45;
    private static final double TWO_THIRDS = 2 / 3.0;
    private static final double TWO_THIRDS_LOW = 0x1.5555555555555p-55;
    private static final long SQRT_HALF_BITS = 0x3FE6A09E667F3BCDL;
    private static final long ONE_BITS = 0x3FF0000000000000L;
    private static final long MANTISSA = (1L << 52) - 1;
    /** {@code (2 artanh(s) / s - 2) / s^2} in s^2 for |s| up to 0.172. */
    private static final double[] LOG = {0.6666666666666735, 0.39999999999411584, 0.28571428743176347,
        0.22222198483229236, 0.18183569425937865, 0.15313910040314863, 0.14797449524142234};
    private static final double[] LOG_BRIEF = {0.6666666666658682, 0.4000000005250852, 0.2857141708693574,
        0.22223375005209092, 0.1812352772157914, 0.16821280170257166};
    /** The same without its first term, 2/3, and over s^2. */
    private static final double[] LOG_TAIL = {0.3999999999999998, 0.2857142857144521, 0.22222222217511264,
        0.18181818873429184, 0.15384556657285386, 0.13336325680197894, 0.11674650138812097, 0.11990420235779337};
    /** {@code (arsinh(x) / x - 1) / x^2} in x^2 for |x| up to 1/2. */
    private static final double[] ASINH = {-0.1666666666666661, 0.0749999999998458, -0.04464285712795676,
        0.030381943721203803, -0.02237213846605955, 0.017352388478361756, -0.013960246371474054,
        0.011513071044780335, -0.009534495291027066, 0.007466504244434321, -0.004748840650787916,
        0.0017189349261884335};
    private static final double[] ASINH_BRIEF = {-0.166666665850087, 0.07499991449346625, -0.044639816517765996,
        0.030330261409490102, -0.021894848838399823, 0.014849355636577912, -0.0065891472726189075};
    /** {@code (artanh(x) / x - 1) / x^2} in x^2 for |x| up to 1/2. */
    private static final double[] ATANH = {0.3333333333333328, 0.20000000000018894, 0.14285714283352494,
        0.11111111260141811, 0.09090903525047145, 0.07692441904244035, 0.06664466491008589, 0.059076262346146866,
        0.05056704239820541, 0.05962534021627127, -0.005524320795197767, 0.17532509467348947, -0.19657703801934692,
        0.24136995569536707};
    private static final double[] ATANH_BRIEF = {0.3333333310329744, 0.200000290014408, 0.14284468431180605,
        0.11136845398725727, 0.08799784325179254, 0.09576584257858055, -0.0014755873164925873, 0.17897220150623508};

    private final LoopBody body;
    private final boolean brief;
    private final Exponential exponential;

    Logarithm(LoopBody body, boolean brief) {
        this.body = body;
        this.brief = brief;
        exponential = new Exponential(body, brief);
    }

    /** {@code x = 2^exponent * (1 + fraction)}, the fraction from sqrt(1/2) - 1 to sqrt(2) - 1. */
    private record Parts(int exponent, int fraction) { }

    private Parts split(int x) {
        int tiny = body.less(x, body.f64(0x1p-1022));
        int normal = brief ? x : body.select(tiny, body.mul(x, body.f64(0x1p54)), x);
        int shifted = body.add(body.reinterpret(normal), body.i64(ONE_BITS - SQRT_HALF_BITS));
        int biased = body.or(body.shift(Primitive.SHR, shifted, 52), body.i64(Double.doubleToRawLongBits(0x1p52)));
        int bias = body.f64(0x1p52 + 1023);
        int offset = brief ? bias : body.select(tiny, body.f64(0x1p52 + 1023 + 54), bias);
        int exponent = body.sub(body.reinterpret(biased), offset);
        int mantissa = body.add(body.and(shifted, body.i64(MANTISSA)), body.i64(SQRT_HALF_BITS));
        return new Parts(exponent, body.sub(body.reinterpret(mantissa), body.f64(1)));
    }

    /** {@code log(x) + correction} of a positive, finite x. */
    private int regular(int x, int correction) {
        Parts parts = split(x);
        int f = parts.fraction;
        int s = body.div(f, body.add(f, body.f64(2)));
        int z = body.mul(s, s);
        int half = body.mul(body.mul(f, f), body.f64(0.5));
        int series = body.fma(z, body.polynomial(z, brief ? LOG_BRIEF : LOG), half);
        int low = body.fma(parts.exponent, body.f64(LN2_LOW), correction);
        int rest = body.sub(half, body.fma(s, series, low));
        return body.fma(parts.exponent, body.f64(LN2_HIGH), body.sub(f, rest));
    }

    /** {@code log(x) + correction}, without the correction where x is 0, negative or not finite. */
    private int log(int x, int correction) {
        int zero = body.compare(Primitive.EQ, x, body.f64(0));
        int outside = body.select(zero, body.f64(-INFINITY), body.f64(Double.NaN));
        int log = body.select(body.less(body.f64(0), x), regular(x, correction), outside);
        return body.select(body.compare(Primitive.EQ, x, body.f64(INFINITY)), x, log);
    }

    int log(int x) {
        return log(x, body.f64(0));
    }

    /** {@code log(u)} of {@code u = 1 + x}, plus the part of x lost in rounding u, divided by u. */
    int log1p(int x) {
        int u = body.add(x, body.f64(1));
        int lost = body.sub(x, body.sub(u, body.f64(1)));
        return body.select(body.less(body.abs(x), body.f64(0x1p-54)), x, log(u, body.div(lost, u)));
    }

    private int oddSeries(int x, double[] coefficients) {
        int square = body.mul(x, x);
        return body.fma(body.mul(x, square), body.polynomial(square, coefficients), x);
    }

    int asinh(int x) {
        int a = body.abs(x);
        int square = body.mul(a, a);
        int large;
        if (brief) {
            int root = body.unary(Primitive.SQRT, body.add(square, body.f64(1)));
            large = log(body.add(a, root));
        } else {
            int squareLow = body.fma(a, a, body.neg(square));
            Pair radicand = Pair.sum(body, square, body.f64(1));
            Pair root = root(radicand.high(), body.add(radicand.low(), squareLow));
            Pair sum = Pair.ordered(body, root.high(), a);
            int correction = body.div(body.add(sum.low(), root.low()), sum.high());
            int huge = body.less(body.f64(0x1p55), a);
            large = log(body.select(huge, a, sum.high()), body.select(huge, body.f64(LN2), correction));
        }
        int small = oddSeries(a, brief ? ASINH_BRIEF : ASINH);
        return body.withSign(body.select(body.less(a, body.f64(0.5)), small, large), x);
    }

    /** The square root of {@code high + low}. */
    private Pair root(int high, int low) {
        int root = body.unary(Primitive.SQRT, high);
        int rest = body.add(body.fma(body.neg(root), root, high), low);
        return new Pair(root, body.div(body.mul(rest, body.f64(0.5)), root));
    }

    int acosh(int x) {
        int t = body.sub(x, body.f64(1));
        if (brief) {
            int root = body.unary(Primitive.SQRT, body.mul(t, body.add(x, body.f64(1))));
            int log = log(body.add(x, root));
            return body.select(body.less(x, body.f64(1)), body.f64(Double.NaN), log);
        }
        Pair factor = Pair.sum(body, t, body.f64(2));
        Pair product = Pair.product(body, t, factor.high());
        Pair root = root(product.high(), body.fma(t, factor.low(), product.low()));
        Pair sum = Pair.ordered(body, root.high(), t);
        Pair u = Pair.sum(body, body.f64(1), sum.high());
        int lost = body.add(u.low(), body.add(sum.low(), root.low()));
        int huge = body.less(body.f64(0x1p55), x);
        int correction = body.select(huge, body.f64(LN2), body.div(lost, u.high()));
        int log = log(body.select(huge, x, u.high()), correction);
        int atOne = body.compare(Primitive.EQ, t, body.f64(0));
        int outside = body.select(atOne, body.f64(0), body.f64(Double.NaN));
        return body.select(body.less(body.f64(0), t), log, outside);
    }

    int atanh(int x) {
        int a = body.abs(x);
        int rest = body.sub(body.f64(1), a);
        int large = brief ? log(body.div(body.add(a, body.f64(1)), rest))
                : log1p(body.div(body.add(a, a), rest));
        int small = oddSeries(a, brief ? ATANH_BRIEF : ATANH);
        large = body.mul(large, body.f64(0.5));
        return body.withSign(body.select(body.less(a, body.f64(0.5)), small, large), x);
    }

    /** {@code log(x)} of a positive, finite x to some 65 bits: 2 artanh(s) with s and the leading terms as pairs. */
    private Pair precise(int x) {
        Parts parts = split(x);
        int f = parts.fraction;
        Pair g = Pair.ordered(body, body.f64(2), f);
        int reciprocal = body.div(body.f64(1), g.high());
        int s = body.mul(f, reciprocal);
        int remainder = body.fma(body.neg(s), g.high(), f);
        int sLow = body.mul(reciprocal, body.fma(body.neg(s), g.low(), remainder));
        Pair z = Pair.product(body, s, s);
        int zLow = body.fma(body.add(s, s), sLow, z.low());
        Pair series = Pair.ordered(body, body.f64(TWO_THIRDS), body.mul(z.high(), body.polynomial(z.high(), LOG_TAIL)));
        int seriesLow = body.add(series.low(), body.f64(TWO_THIRDS_LOW));
        Pair w = Pair.product(body, z.high(), series.high());
        int wLow = body.fma(zLow, series.high(), body.fma(z.high(), seriesLow, w.low()));
        Pair v = Pair.product(body, s, w.high());
        int vLow = body.fma(sLow, w.high(), body.fma(s, wLow, v.low()));
        Pair log = Pair.ordered(body, body.add(s, s), v.high());
        int low = body.add(log.low(), body.fma(sLow, body.f64(2), vLow));
        Pair sum = Pair.ordered(body, body.mul(parts.exponent, body.f64(LN2_HIGH)), log.high());
        return new Pair(sum.high(), body.add(sum.low(), body.fma(parts.exponent, body.f64(LN2_LOW), low)));
    }

    /** {@code y log(x)} of a positive, finite x. */
    private Pair exponent(int x, int y) {
        int zero = body.f64(0);
        int isZero = body.compare(Primitive.EQ, x, zero);
        Pair log = brief ? new Pair(regular(x, zero), -1) : precise(x);
        int high = body.select(isZero, body.f64(-INFINITY), log.high());
        high = body.select(body.less(x, body.f64(INFINITY)), high, x);
        int product = body.mul(y, high);
        return new Pair(product, brief ? -1
                : body.fma(y, log.low(), body.fma(y, high, body.neg(product))));
    }

    /** Special cases as in C and NumPy: 1 to any power is 1, and so is -1 to an infinite power. */
    int pow(int x, int y) {
        int magnitude = body.abs(x);
        int one = body.f64(1);
        int power = exponential.exp(exponent(magnitude, y));
        int isNegative = body.less(body.reinterpret(x), body.i64(0));
        int isOdd = body.and(isInteger(y), body.not(isInteger(body.mul(y, body.f64(0.5)))));
        int signed = body.select(body.and(isNegative, isOdd), body.neg(power), power);
        int isFinite = body.less(magnitude, body.f64(INFINITY));
        int isBelow = body.and(body.less(x, body.f64(0)), isFinite);
        int isUndefined = body.and(isBelow, body.not(isInteger(y)));
        int result = body.select(isUndefined, body.f64(Double.NaN), signed);
        int isInfinite = body.compare(Primitive.EQ, body.abs(y), body.f64(INFINITY));
        int isUnit = body.and(isInfinite, body.compare(Primitive.EQ, magnitude, one));
        isUnit = body.or(isUnit, body.compare(Primitive.EQ, x, one));
        isUnit = body.or(isUnit, body.compare(Primitive.EQ, y, body.f64(0)));
        return body.select(isUnit, one, result);
    }

    private int isInteger(int y) {
        int magnitude = body.abs(y);
        int rounder = body.f64(0x1p52);
        int rounded = body.sub(body.add(magnitude, rounder), rounder);
        return body.or(body.compare(Primitive.EQ, rounded, magnitude), body.less(rounder, magnitude));
    }
}
