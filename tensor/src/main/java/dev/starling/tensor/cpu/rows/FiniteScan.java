package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import java.lang.foreign.ValueLayout;

/**
 * Searches for NaN and infinities at the speed of memory. A number is NaN or infinite if all bits of its exponent are
 * set: adding the lowest bit of the exponent then carries into the sign bit, and for no other number. Eight bytes hold
 * one or more numbers, so that one loop over integers serves all floating types.
 */
public final class FiniteScan {
    private static final long WORDS = 0x0001_0001_0001_0001L;
    private static final long INTS = 0x0000_0001_0000_0001L;

    /** The loop in plain Java. */
    static final Carries SCALAR = FiniteScan::carries;

    private FiniteScan() { }

    /** The loop of the search. */
    @FunctionalInterface
    interface Carries {
        /** Returns the bitwise OR of the sums of exponents and their lowest bits, of {@code bytes} whole words. */
        long of(long x, long bytes, long exponent, long lowest);
    }

    /**
     * Returns whether adjacent numbers are all finite; integers always are.
     *
     * @param x address of the first number
     * @param bytes size of all numbers
     */
    public static boolean isFinite(long x, long bytes, DType type) {
        return isFinite(x, bytes, type, RowLoops.FASTEST.carries());
    }

    static boolean isFinite(long x, long bytes, DType type, Carries loop) {
        return switch (type) {
            case F64 -> isFinite(x, bytes, 0x7FF0L << 48, 0x10L << 48, loop);
            case F32 -> isFinite(x, bytes, 0x7F80_0000L * INTS, 0x80_0000L * INTS, loop);
            case BF16 -> isFinite(x, bytes, 0x7F80 * WORDS, 0x80 * WORDS, loop);
            case F16 -> isFinite(x, bytes, 0x7C00 * WORDS, 0x400 * WORDS, loop);
            case I64, I32, I8, U8, BOOL -> true;
        };
    }

    private static boolean isFinite(long x, long bytes, long exponent, long lowest, Carries loop) {
        long whole = bytes & -Long.BYTES;
        long found = loop.of(x, whole, exponent, lowest);
        long rest = 0;
        for (long at = whole; at < bytes; at += Short.BYTES) {
            rest |= (ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, x + at) & 0xFFFFL) << 8 * (at - whole);
        }
        found |= (rest & exponent) + lowest;
        return (found & exponent + lowest) == 0;
    }

    /** Returns the bitwise OR of the sums of exponents and their lowest bits. */
    static long carries(long x, long bytes, long exponent, long lowest) {
        long found = 0;
        for (long at = 0; at < bytes; at += Long.BYTES) {
            found |= (ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, x + at) & exponent) + lowest;
        }
        return found;
    }
}
