package dev.starling.tensor.cpu.jit;

/** Conversion between 16-bit floats' bits in I32 lanes and F32, with rounding to nearest even. */
final class HalfFloat {
    private static final int INFINITY_BITS = 0x7F800000;

    private HalfFloat() { }

    private static int i(LoopBody body, int value) {
        return body.bits(Lane.I32, value);
    }

    /** A multiplication rebases the exponent, which also normalises subnormal numbers. The bits are sign-extended. */
    static int widen(LoopBody body, int half) {
        int magnitude = body.shift(Primitive.SHL, body.and(half, i(body, 0x7FFF)), 13);
        int finite = body.reinterpret(body.mul(body.reinterpret(magnitude), body.constant(Lane.F32, 0x1p112)));
        int special = body.or(magnitude, i(body, INFINITY_BITS));
        int isFinite = body.less(magnitude, i(body, 0x7C00 << 13));
        int sign = body.and(half, i(body, Integer.MIN_VALUE));
        return body.reinterpret(body.or(body.select(isFinite, finite, special), sign));
    }

    static int narrow(LoopBody body, int value) {
        int bits = body.reinterpret(value);
        int magnitude = body.and(bits, i(body, Integer.MAX_VALUE));
        int odd = body.and(body.shift(Primitive.SHR, magnitude, 13), i(body, 1));
        int rebased = body.add(magnitude, i(body, ((15 - 127) << 23) + 0xFFF));
        int normal = body.binary(Primitive.MIN, body.shift(Primitive.SHR, body.add(rebased, odd), 13),
                i(body, 0x7C00));
        // Adding 1/2 aligns a subnormal's bits with the end of the float and rounds the bits below.
        int aligned = body.add(body.reinterpret(magnitude), body.constant(Lane.F32, 0.5));
        int subnormal = body.sub(body.reinterpret(aligned), i(body, Float.floatToRawIntBits(0.5f)));
        int isNan = body.less(i(body, INFINITY_BITS), magnitude);
        int isSubnormal = body.less(magnitude, i(body, 0x38800000));
        int half = body.select(isNan, i(body, 0x7E00), body.select(isSubnormal, subnormal, normal));
        return body.or(half, body.and(body.shift(Primitive.SHR, bits, 16), i(body, 0x8000)));
    }

    static int narrowToBrain(LoopBody body, int value) {
        int bits = body.reinterpret(value);
        int odd = body.and(body.shift(Primitive.SHR, bits, 16), i(body, 1));
        int rounded = body.shift(Primitive.SHR, body.add(body.add(bits, i(body, 0x7FFF)), odd), 16);
        int quiet = body.or(body.shift(Primitive.SHR, bits, 16), i(body, 0x40));
        return body.select(body.compare(Primitive.NE, value, value), quiet, rounded);
    }

    /**
     * Converts a double to the float that rounds to the same 16 bits: truncated, with the last bit set if anything was
     * lost, so that a second rounding resolves ties correctly.
     */
    static int toOdd(LoopBody body, int value) {
        int nearest = body.convert(Lane.F32, value);
        int back = body.convert(Lane.F64, nearest);
        int bits = body.reinterpret(nearest);
        int isBeyond = body.less(body.abs(value), body.abs(back));
        int cut = body.select(isBeyond, body.sub(bits, i(body, 1)), bits);
        int isLost = body.compare(Primitive.NE, value, back);
        return body.reinterpret(body.select(isLost, body.or(cut, i(body, 1)), cut));
    }

    /** Does the same for a long that becomes a double: beyond 53 bits, the lower 11 are cut off. */
    static int toOddLong(LoopBody body, int value) {
        int isLost = body.compare(Primitive.NE, body.and(value, body.i64(0x7FF)), body.i64(0));
        int last = body.select(isLost, body.i64(0x800), body.i64(0));
        int odd = body.or(body.and(value, body.i64(-0x800)), last);
        return body.select(body.less(body.i64(1L << 53), body.abs(value)), odd, value);
    }
}
