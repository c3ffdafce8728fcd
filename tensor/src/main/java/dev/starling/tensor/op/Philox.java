package dev.starling.tensor.op;

import dev.starling.tensor.TensorException;

/**
 * The definition of Starling's random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011), a function of a seed and a counter without further state.
 *
 * <p>Element {@code i} of a tensor drawn with {@code (seed, offset)} comes from the counter {@code offset + i / 4},
 * lane {@code i % 4}, whatever the tensor's shape, dtype, device or the number of threads; {@code n} elements use
 * {@code (n + 3) / 4} counters. Values are computed in f32 and then converted to the tensor's dtype. Only IEEE
 * operations with exact rounding are used (add, multiply, fused multiply-add, square root, conversion), so that every
 * device makes the same bits.
 */
public final class Philox {
    private static final long LOW = 0xFFFFFFFFL;
    private static final long MULTIPLIER_0 = 0xD2511F53L;
    private static final long MULTIPLIER_1 = 0xCD9E8D57L;
    private static final int WEYL_0 = 0x9E3779B9;
    private static final int WEYL_1 = 0xBB67AE85;
    private static final int ROUNDS = 10;
    private static final int SQRT_HALF_BITS = 0x3F3504F3;
    private static final float LN_2 = 0.69314718056f;

    private Philox() { }

    /**
     * Writes the four 32-bit random words of a block to {@code words}, from index {@code at}. The key is
     * {@code (low, high)} of the seed, the counter block {@code (low, high, 0, 0)} of {@code counter}.
     */
    public static void block(long seed, long counter, int[] words, int at) {
        int k0 = (int) seed;
        int k1 = (int) (seed >>> 32);
        int c0 = (int) counter;
        int c1 = (int) (counter >>> 32);
        int c2 = 0;
        int c3 = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long p0 = (c0 & LOW) * MULTIPLIER_0;
            long p1 = (c2 & LOW) * MULTIPLIER_1;
            c0 = (int) (p1 >>> 32) ^ c1 ^ k0;
            c1 = (int) p1;
            c2 = (int) (p0 >>> 32) ^ c3 ^ k1;
            c3 = (int) p0;
            k0 += WEYL_0;
            k1 += WEYL_1;
        }
        words[at] = c0;
        words[at + 1] = c1;
        words[at + 2] = c2;
        words[at + 3] = c3;
    }

    /**
     * Returns one word of a block.
     *
     * @param lane which of the four words of the block, 0 to 3
     */
    public static int bits(long seed, long counter, int lane) {
        if (lane < 0 || lane > 3) {
            throw TensorException.argument("philox", "lane must be 0 to 3, got " + lane, "give a lane of the block");
        }
        int[] words = new int[4];
        block(seed, counter, words, 0);
        return words[lane];
    }

    /**
     * Returns the number of counters that a draw of {@code elements} numbers uses; the next draw starts behind them.
     */
    public static long counters(long elements) {
        return (elements + 3) >>> 2;
    }

    /** Returns the bits of element {@code index} of a draw. */
    public static int bitsAt(long seed, long offset, long index) {
        return bits(seed, offset + (index >>> 2), (int) (index & 3));
    }

    /** Returns element {@code index} of a draw that is uniform on [0, 1). */
    public static float uniformAt(long seed, long offset, long index) {
        return uniform(bitsAt(seed, offset, index));
    }

    /**
     * Returns element {@code index} of a draw that is true with {@code probability}: if the uniform draw is below it.
     */
    public static boolean bernoulliAt(long seed, long offset, long index, float probability) {
        return uniformAt(seed, offset, index) < probability;
    }

    /** Returns element {@code index} of a standard normal draw. */
    public static float normalAt(long seed, long offset, long index) {
        long counter = offset + (index >>> 2);
        int even = (int) (index & 2);
        return normal(bits(seed, counter, even), bits(seed, counter, even + 1), (index & 1) != 0);
    }

    /** Returns a number uniform on [0, 1), a multiple of 2<sup>-24</sup>: the upper 24 of the bits. */
    public static float uniform(int bits) {
        return (bits >>> 8) * 0x1p-24f;
    }

    /**
     * Returns a standard normal number by Box and Muller, at most 5.8 in magnitude: {@code sqrt(-2 ln u) cos(2 pi v)}
     * for the even and {@code sqrt(-2 ln u) sin(2 pi v)} for the odd one of a pair of elements, where the pair's even
     * lane gives {@code u = ((evenBits >>> 8) + 1) / 2^24} and its odd lane {@code v = (oddBits >>> 8) / 2^24}.
     */
    public static float normal(int evenBits, int oddBits, boolean odd) {
        float radius = (float) Math.sqrt(-2f * logarithm((evenBits >>> 8) + 1));
        int turn = oddBits >>> 8;
        int quarter = (turn + (1 << 21)) >>> 22;
        float rest = (turn - (quarter << 22)) * 0x1p-22f;
        boolean sine = ((quarter & 1) != 0) != odd;
        boolean negative = ((odd ? quarter : quarter + 1) & 2) != 0;
        float value = radius * (sine ? sineOfQuarters(rest) : cosineOfQuarters(rest));
        return negative ? -value : value;
    }

    /** Returns the natural logarithm of {@code k / 2^24} for {@code k} from 1 to 2^24. */
    private static float logarithm(int k) {
        int shifted = Float.floatToRawIntBits((float) k) - SQRT_HALF_BITS;
        float exponent = (shifted >> 23) - 24;
        float f = Float.intBitsToFloat((shifted & 0x7FFFFF) + SQRT_HALF_BITS) - 1f;
        float p = 0.06746648252010345f;
        p = Math.fma(p, f, -0.11675655096769333f);
        p = Math.fma(p, f, 0.11888160556554794f);
        p = Math.fma(p, f, -0.1240558847784996f);
        p = Math.fma(p, f, 0.14219552278518677f);
        p = Math.fma(p, f, -0.1666799634695053f);
        p = Math.fma(p, f, 0.2000211924314499f);
        p = Math.fma(p, f, -0.25000008940696716f);
        p = Math.fma(p, f, 0.3333331346511841f);
        p = Math.fma(p, f, -0.5f);
        return Math.fma(exponent, LN_2, Math.fma(p, f * f, f));
    }

    /** Returns {@code sin(r pi / 2)} for {@code |r| <= 1/2}. */
    private static float sineOfQuarters(float r) {
        float s = r * r;
        float p = -0.00460165785625577f;
        p = Math.fma(p, s, 0.07968003302812576f);
        p = Math.fma(p, s, -0.6459634900093079f);
        p = Math.fma(p, s, 1.5707963705062866f);
        return p * r;
    }

    /** Returns {@code cos(r pi / 2)} for {@code |r| <= 1/2}. */
    private static float cosineOfQuarters(float r) {
        float s = r * r;
        float p = 0.0009033629903569818f;
        p = Math.fma(p, s, -0.020859936252236366f);
        p = Math.fma(p, s, 0.2536691725254059f);
        p = Math.fma(p, s, -1.2337005138397217f);
        return Math.fma(p, s, 1f);
    }
}
