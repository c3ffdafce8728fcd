package dev.starling.tensor.cpu.jit;

/**
 * Trigonometric functions and their inverses in f64 lanes, composed of primitives. Polynomials are minimax fits of the
 * relative error; the brief ones, exact to 36 bits or more, serve results that are rounded to f32.
 */
final class Trigonometry {
    /**
     * Up to this magnitude three parts of pi / 2 suffice for the reduction; {@link StrictMath} computes larger
     * arguments.
     */
    private static final double REDUCIBLE = 0x1p30;
    private static final double TWO_BY_PI = 0x1.45f306dc9c883p-1;
    private static final double[] HALF_PI = {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
    private static final double ROUNDER = 0x1.8p52;
    /** {@code (sin(r) / r - 1) / r^2} in r^2 for |r| up to pi / 4. */
    private static final double[] SIN = {-0.16666666666666632, 0.008333333333322207, -0.00019841269829634034,
        2.7557313629003907e-06, -2.5050747887818526e-08, 1.5896182580139644e-10};
    private static final double[] SIN_BRIEF = {-0.16666666641233457, 0.008333329339116976, -0.00019839319530804005,
        2.71816373032099e-06};
    /** {@code (cos(r) - 1 + r^2 / 2) / r^4} in r^2 for |r| up to pi / 4. */
    private static final double[] COS = {0.041666666666666595, -0.0013888888888873856, 2.480158728930525e-05,
        -2.755731429874003e-07, 2.087571567922003e-09, -1.1359239743618218e-11};
    private static final double[] COS_BRIEF = {0.04166666662213538, -0.0013888883692504482, 2.479950367006521e-05,
        -2.720886899051318e-07};
    /** {@code (atan(t) / t - 1) / t^2} in t^2 for |t| up to 1/2. */
    private static final double[] ATAN = {-0.33333333333332993, 0.1999999999990539, -0.14285714276565542,
        0.1111111066671512, -0.09090896407072468, 0.07692076256103784, -0.06663832796625477, 0.058584385716790414,
        -0.05122585520303271, 0.04188028339070118, -0.02745794037596003, 0.010132008384785849};
    private static final double[] ATAN_BRIEF = {-0.3333333293688673, 0.1999995842357428, -0.1428423316303425,
        0.11085877062314708, -0.08857085692635748, 0.06459320170676519, -0.029969127878858443};
    /** {@code (asin(t) / t - 1) / t^2} in t^2 for |t| up to 1/2. */
    private static final double[] ASIN = {0.16666666666666763, 0.07499999999970161, 0.044642857175236826,
        0.03038194267732144, 0.022372215854838087, 0.017351596329353427, 0.013981009428107889, 0.01139736201074839,
        0.010788960600950647, 0.0036734635410235325, 0.021787711699343616, -0.021112781723244465,
        0.03269981914154818};
    private static final double[] ASIN_BRIEF = {0.1666666662664148, 0.07500005052961775, 0.04464068323836593,
        0.03042692669674389, 0.02186217473706477, 0.020663477293877654, 0.00193634061092656, 0.03295502797382758};

    private final LoopBody body;
    private final boolean brief;

    Trigonometry(LoopBody body, boolean brief) {
        this.body = body;
        this.brief = brief;
    }

    /** {@code x = n pi/2 + high + low}: n in the low bits of {@code quadrant}. */
    private record Angle(int quadrant, int high, int low) { }

    private Angle reduce(int x) {
        int shifted = body.fma(x, body.f64(TWO_BY_PI), body.f64(ROUNDER));
        int n = body.sub(shifted, body.f64(ROUNDER));
        int first = body.fma(n, body.f64(-HALF_PI[0]), x);
        if (brief) {
            return new Angle(body.reinterpret(shifted), body.fma(n, body.f64(-HALF_PI[1]), first), -1);
        }
        Pair step = Pair.product(body, n, body.f64(-HALF_PI[1]));
        Pair rest = Pair.sum(body, first, step.high());
        int low = body.fma(n, body.f64(-HALF_PI[2]), body.add(rest.low(), step.low()));
        Pair angle = Pair.ordered(body, rest.high(), low);
        return new Angle(body.reinterpret(shifted), angle.high(), angle.low());
    }

    /** The sine as two parts, not yet added. */
    private Pair sine(Angle angle) {
        int r = angle.high;
        int z = body.mul(r, r);
        int cube = body.mul(r, z);
        int p = body.polynomial(z, brief ? SIN_BRIEF : SIN);
        int low = brief ? -1 : body.fma(body.mul(z, body.f64(-0.5)), angle.low, angle.low);
        return new Pair(r, brief ? body.mul(cube, p) : body.fma(cube, p, low));
    }

    /** The cosine as two parts, not yet added. */
    private Pair cosine(Angle angle) {
        int z = body.mul(angle.high, angle.high);
        int square = body.mul(z, z);
        int p = body.polynomial(z, brief ? COS_BRIEF : COS);
        int half = body.mul(z, body.f64(0.5));
        int top = body.sub(body.f64(1), half);
        if (brief) {
            return new Pair(top, body.mul(square, p));
        }
        int lost = body.sub(body.sub(body.f64(1), top), half);
        int low = body.sub(lost, body.mul(angle.high, angle.low));
        return new Pair(top, body.fma(square, p, low));
    }

    private Pair select(int condition, Pair a, Pair b) {
        return new Pair(body.select(condition, a.high(), b.high()), body.select(condition, a.low(), b.low()));
    }

    private int added(Pair pair) {
        return body.add(pair.high(), pair.low());
    }

    private int isOdd(int quadrant) {
        int zero = body.i64(0);
        return body.compare(Primitive.NE, body.and(quadrant, body.i64(1)), zero);
    }

    /** Flips the sign if the second bit of the quadrant is set. */
    private int withSignOf(int quadrant, int value) {
        int sign = body.shift(Primitive.SHL, body.and(quadrant, body.i64(2)), 62);
        return body.reinterpret(body.binary(Primitive.XOR, body.reinterpret(value), sign));
    }

    private int unlessHuge(int x, int value, Function function) {
        return body.rare(body.less(body.f64(REDUCIBLE), body.abs(x)), value, function, x);
    }

    int sin(int x) {
        Angle angle = reduce(x);
        int value = added(select(isOdd(angle.quadrant), cosine(angle), sine(angle)));
        int signed = withSignOf(angle.quadrant, value);
        int isZero = body.compare(Primitive.EQ, x, body.f64(0));
        return unlessHuge(x, body.select(isZero, x, signed), Function.SIN);
    }

    int cos(int x) {
        Angle angle = reduce(x);
        int value = added(select(isOdd(angle.quadrant), sine(angle), cosine(angle)));
        return unlessHuge(x, withSignOf(body.add(angle.quadrant, body.i64(1)), value), Function.COS);
    }

    int tan(int x) {
        Angle angle = reduce(x);
        int isOdd = isOdd(angle.quadrant);
        Pair top = select(isOdd, cosine(angle), sine(angle));
        Pair bottom = select(isOdd, sine(angle), cosine(angle));
        int value = brief ? body.div(added(top), added(bottom)) : quotient(top, bottom);
        value = body.select(isOdd, body.neg(value), value);
        int isZero = body.compare(Primitive.EQ, x, body.f64(0));
        return unlessHuge(x, body.select(isZero, x, value), Function.TAN);
    }

    /** The quotient of two sums: the quotient of the high parts is corrected by the remainder of the division. */
    private int quotient(Pair a, Pair b) {
        Pair top = Pair.ordered(body, a.high(), a.low());
        Pair bottom = Pair.ordered(body, b.high(), b.low());
        int reciprocal = body.div(body.f64(1), bottom.high());
        int quotient = body.mul(top.high(), reciprocal);
        int rest = body.fma(body.neg(quotient), bottom.high(), top.high());
        rest = body.fma(body.neg(quotient), bottom.low(), body.add(rest, top.low()));
        return body.fma(rest, reciprocal, quotient);
    }

    private int series(int t, double[] coefficients) {
        int z = body.mul(t, t);
        return body.mul(body.mul(t, z), body.polynomial(z, coefficients));
    }

    /** {@code base + t + tail}, where base is 0 or larger than t. */
    private int sum(int base, int baseLow, int t, int tail) {
        Pair sum = Pair.ordered(body, base, t);
        return body.add(sum.high(), body.add(sum.low(), body.add(baseLow, tail)));
    }

    /** {@code atan(a / b)} of a and b not below 0: of a quotient up to 1/2, after a rotation by pi/4 or pi/2. */
    private int atan(int a, int b) {
        int isLow = body.less(body.add(a, a), b);
        int isHigh = body.less(body.add(b, b), a);
        int top = body.select(isLow, a, body.select(isHigh, body.neg(b), body.sub(a, b)));
        int bottom = body.select(isLow, b, body.select(isHigh, a, body.add(a, b)));
        int t = body.div(top, bottom);
        int base = body.select(isLow, body.f64(0), body.select(isHigh, body.f64(HALF_PI[0]),
                body.f64(HALF_PI[0] / 2)));
        int baseLow = body.select(isLow, body.f64(0), body.select(isHigh, body.f64(HALF_PI[1]),
                body.f64(HALF_PI[1] / 2)));
        return sum(base, baseLow, t, series(t, brief ? ATAN_BRIEF : ATAN));
    }

    int atan(int x) {
        return body.withSign(atan(body.abs(x), body.f64(1)), x);
    }

    int atan2(int y, int x) {
        int a = body.abs(y);
        int b = body.abs(x);
        int max = body.binary(Primitive.MAX, a, b);
        if (!brief) {
            int huge = body.less(body.f64(0x1p1000), max);
            int tiny = body.less(max, body.f64(0x1p-900));
            int scale = body.select(huge, body.f64(0x1p-100), body.select(tiny, body.f64(0x1p200), body.f64(1)));
            a = body.mul(a, scale);
            b = body.mul(b, scale);
        }
        int infinity = body.f64(Double.POSITIVE_INFINITY);
        int bothInfinite = body.and(body.compare(Primitive.EQ, a, infinity), body.compare(Primitive.EQ, b, infinity));
        int bothZero = body.compare(Primitive.EQ, max, body.f64(0));
        a = body.select(bothInfinite, body.f64(1), a);
        b = body.select(body.or(bothInfinite, bothZero), body.f64(1), b);
        int angle = atan(a, b);
        int isLeft = body.less(body.reinterpret(x), body.i64(0));
        int turned = body.sub(body.f64(2 * HALF_PI[0]), body.sub(angle, body.f64(2 * HALF_PI[1])));
        return body.withSign(body.select(isLeft, turned, angle), y);
    }

    int asin(int x) {
        int a = body.abs(x);
        int isLow = body.less(a, body.f64(0.5));
        int root = root(a);
        int t = body.select(isLow, a, root);
        int tail = series(t, brief ? ASIN_BRIEF : ASIN);
        int low = body.add(t, tail);
        int twice = body.add(root, root);
        int high = sum(body.f64(HALF_PI[0]), body.f64(HALF_PI[1]), body.neg(twice), body.neg(body.add(tail, tail)));
        return body.withSign(body.select(isLow, low, high), x);
    }

    /** {@code sin(acos(a) / 2)}. */
    private int root(int a) {
        return body.unary(Primitive.SQRT, body.mul(body.sub(body.f64(1), a), body.f64(0.5)));
    }

    int acos(int x) {
        int a = body.abs(x);
        int isLow = body.less(a, body.f64(0.5));
        int t = body.select(isLow, x, root(a));
        int tail = series(t, brief ? ASIN_BRIEF : ASIN);
        int low = sum(body.f64(HALF_PI[0]), body.f64(HALF_PI[1]), body.neg(t), body.neg(tail));
        int right = body.add(body.add(t, t), body.add(tail, tail));
        int left = sum(body.f64(2 * HALF_PI[0]), body.f64(2 * HALF_PI[1]), body.neg(body.add(t, t)),
                body.neg(body.add(tail, tail)));
        int outer = body.select(body.less(x, body.f64(0)), left, right);
        return body.select(isLow, low, outer);
    }
}
