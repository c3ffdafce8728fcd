package dev.starling.tensor.cpu.jit;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;

/** Functions with 45 or more digits, by their series, for arguments that are doubles. */
final class PreciseFunctions {
    private static final MathContext DIGITS = new MathContext(60);
    private static final BigDecimal ONE = BigDecimal.ONE;
    private static final BigDecimal TWO = BigDecimal.TWO;
    private static final BigDecimal LN2 = artanh(ONE.divide(BigDecimal.valueOf(3), DIGITS)).multiply(TWO, DIGITS);
    /** Enough digits for the remainder of the largest double to be exact. */
    private static final BigDecimal PI = pi(new MathContext(420));

    private PreciseFunctions() { }

    private static boolean isNegligible(BigDecimal term, BigDecimal sum) {
        return term.signum() == 0 || sum.precision() - sum.scale() - (term.precision() - term.scale()) > 55;
    }

    /** Machin's formula. */
    private static BigDecimal pi(MathContext digits) {
        BigDecimal sum = BigDecimal.ZERO;
        for (int[] part : new int[][] {{16, 5}, {-4, 239}}) {
            BigDecimal power = ONE.divide(BigDecimal.valueOf(part[1]), digits);
            BigDecimal square = BigDecimal.valueOf((long) part[1] * part[1]);
            for (int k = 1; power.precision() - power.scale() > -digits.getPrecision(); k += 2) {
                BigDecimal term = power.divide(BigDecimal.valueOf(k), digits).multiply(BigDecimal.valueOf(part[0]));
                sum = k % 4 == 1 ? sum.add(term) : sum.subtract(term);
                power = power.divide(square, digits);
            }
        }
        return sum.round(digits);
    }

    /** {@code e^x - 1}. */
    static BigDecimal expm1(BigDecimal x) {
        if (x.abs().compareTo(BigDecimal.valueOf(0.5)) > 0) {
            return exp(x).subtract(ONE, DIGITS);
        }
        BigDecimal term = x;
        BigDecimal sum = x;
        for (int n = 2; !isNegligible(term, sum); n++) {
            term = term.multiply(x, DIGITS).divide(BigDecimal.valueOf(n), DIGITS);
            sum = sum.add(term, DIGITS);
        }
        return sum;
    }

    static BigDecimal exp(BigDecimal x) {
        int n = x.divide(LN2, DIGITS).setScale(0, RoundingMode.HALF_EVEN).intValueExact();
        BigDecimal rest = x.subtract(LN2.multiply(BigDecimal.valueOf(n)), DIGITS);
        BigDecimal power = expm1(rest).add(ONE);
        return n < 0 ? power.divide(TWO.pow(-n), DIGITS) : power.multiply(TWO.pow(n), DIGITS);
    }

    /** By its series, for |x| up to 0.4. */
    private static BigDecimal artanh(BigDecimal x) {
        BigDecimal square = x.multiply(x, DIGITS);
        BigDecimal power = x;
        BigDecimal sum = x;
        for (int k = 3; !isNegligible(power, sum); k += 2) {
            power = power.multiply(square, DIGITS);
            sum = sum.add(power.divide(BigDecimal.valueOf(k), DIGITS), DIGITS);
        }
        return sum;
    }

    static BigDecimal log1p(BigDecimal x) {
        if (x.abs().compareTo(BigDecimal.valueOf(0.5)) > 0) {
            return log(x.add(ONE));
        }
        return artanh(x.divide(x.add(TWO), DIGITS)).multiply(TWO, DIGITS);
    }

    static BigDecimal log(BigDecimal x) {
        int n = 0;
        BigDecimal m = x;
        double size = x.doubleValue();
        if (size != 0 && size < Double.POSITIVE_INFINITY) {
            n = Math.getExponent(size) < -1022 ? -1060 : Math.getExponent(size);
            m = n < 0 ? x.multiply(TWO.pow(-n), DIGITS) : x.divide(TWO.pow(n), DIGITS);
        }
        while (m.compareTo(BigDecimal.valueOf(1.4)) > 0) {
            m = m.divide(TWO, DIGITS);
            n++;
        }
        while (m.compareTo(BigDecimal.valueOf(0.7)) < 0) {
            m = m.multiply(TWO, DIGITS);
            n--;
        }
        return log1p(m.subtract(ONE)).add(LN2.multiply(BigDecimal.valueOf(n)), DIGITS);
    }

    /** Sine or cosine. */
    private static BigDecimal circular(BigDecimal x, boolean cosine) {
        BigDecimal quarters = x.multiply(TWO).divide(PI, new MathContext(420)).setScale(0, RoundingMode.HALF_EVEN);
        BigDecimal r = x.subtract(PI.multiply(quarters).divide(TWO)).round(DIGITS);
        int quarter = quarters.toBigInteger().intValue() + (cosine ? 1 : 0) & 3;
        BigDecimal term = quarter % 2 == 0 ? r : ONE;
        BigDecimal sum = term;
        BigDecimal square = r.multiply(r, DIGITS).negate();
        for (int n = quarter % 2 == 0 ? 2 : 1; !isNegligible(term, sum); n += 2) {
            term = term.multiply(square, DIGITS).divide(BigDecimal.valueOf((long) n * (n + 1)), DIGITS);
            sum = sum.add(term, DIGITS);
        }
        return quarter < 2 ? sum : sum.negate();
    }

    static BigDecimal sin(BigDecimal x) {
        return circular(x, false);
    }

    static BigDecimal cos(BigDecimal x) {
        return circular(x, true);
    }

    static BigDecimal tan(BigDecimal x) {
        return sin(x).divide(cos(x), DIGITS);
    }

    /** The angle of a point, by one refinement of the result in double precision. */
    static BigDecimal atan2(BigDecimal y, BigDecimal x) {
        if (y.signum() == 0 && x.signum() > 0) {
            return BigDecimal.ZERO;
        }
        BigDecimal size = y.abs().max(x.abs());
        BigDecimal b = y.divide(size, DIGITS);
        BigDecimal a = x.divide(size, DIGITS);
        if (x.signum() > 0 && b.abs().compareTo(new BigDecimal("1e-9")) < 0) {
            BigDecimal t = y.divide(x, DIGITS);
            BigDecimal square = t.multiply(t, DIGITS);
            BigDecimal fifth = square.multiply(square, DIGITS).divide(BigDecimal.valueOf(5), DIGITS);
            BigDecimal factor = ONE.subtract(square.divide(BigDecimal.valueOf(3), DIGITS), DIGITS).add(fifth, DIGITS);
            return t.multiply(factor, DIGITS);
        }
        BigDecimal first = new BigDecimal(StrictMath.atan2(b.doubleValue(), a.doubleValue()));
        BigDecimal s = sin(first);
        BigDecimal c = cos(first);
        BigDecimal t = b.multiply(c).subtract(a.multiply(s))
                .divide(a.multiply(c).add(b.multiply(s)), DIGITS);
        BigDecimal cube = t.multiply(t, DIGITS).multiply(t, DIGITS).divide(BigDecimal.valueOf(3), DIGITS);
        return first.add(t.subtract(cube, DIGITS), DIGITS);
    }

    /** {@code sqrt(1 - x^2)}. */
    private static BigDecimal leg(BigDecimal x) {
        return ONE.subtract(x.multiply(x)).sqrt(DIGITS);
    }

    static BigDecimal asin(BigDecimal x) {
        return atan2(x, leg(x));
    }

    static BigDecimal acos(BigDecimal x) {
        return atan2(leg(x), x);
    }

    static BigDecimal sinh(BigDecimal x) {
        BigDecimal e = expm1(x.abs());
        BigDecimal sinh = e.add(e.divide(e.add(ONE), DIGITS), DIGITS).divide(TWO, DIGITS);
        return x.signum() < 0 ? sinh.negate() : sinh;
    }

    static BigDecimal cosh(BigDecimal x) {
        BigDecimal e = exp(x.abs());
        return e.add(ONE.divide(e, DIGITS), DIGITS).divide(TWO, DIGITS);
    }

    static BigDecimal tanh(BigDecimal x) {
        BigDecimal e = expm1(x.multiply(TWO).min(BigDecimal.valueOf(300)).max(BigDecimal.valueOf(-300)));
        return e.divide(e.add(TWO), DIGITS);
    }

    static BigDecimal asinh(BigDecimal x) {
        BigDecimal a = x.abs();
        BigDecimal square = a.multiply(a);
        BigDecimal root = square.add(ONE).sqrt(new MathContext(80));
        BigDecimal log = log1p(a.add(square.divide(root.add(ONE), DIGITS), DIGITS));
        return x.signum() < 0 ? log.negate() : log;
    }

    static BigDecimal acosh(BigDecimal x) {
        BigDecimal t = x.subtract(ONE);
        return log1p(t.add(t.multiply(t.add(TWO)).sqrt(DIGITS), DIGITS));
    }

    static BigDecimal atanh(BigDecimal x) {
        return log1p(x.multiply(TWO).divide(ONE.subtract(x), DIGITS)).divide(TWO, DIGITS);
    }

    static BigDecimal pow(BigDecimal x, BigDecimal y) {
        return exp(log(x).multiply(y, DIGITS));
    }

    static BigDecimal sigmoid(BigDecimal x) {
        return ONE.divide(ONE.add(exp(x.negate())), DIGITS);
    }

    static BigDecimal softplus(BigDecimal x) {
        return x.max(BigDecimal.ZERO).add(log1p(exp(x.abs().negate())), DIGITS);
    }

    /** Maclaurin's series. It alternates, and loses some 15 digits for |x| up to 6. */
    static BigDecimal erf(BigDecimal x) {
        if (x.abs().compareTo(BigDecimal.valueOf(6)) > 0) {
            return BigDecimal.valueOf(x.signum());
        }
        BigDecimal square = x.multiply(x, DIGITS).negate();
        BigDecimal term = x;
        BigDecimal sum = x;
        for (int n = 1; !isNegligible(term, sum); n++) {
            term = term.multiply(square, DIGITS).divide(BigDecimal.valueOf(n), DIGITS);
            sum = sum.add(term.divide(BigDecimal.valueOf(2 * n + 1), DIGITS), DIGITS);
        }
        return sum.multiply(TWO).divide(PI.round(DIGITS).sqrt(DIGITS), DIGITS);
    }
}
