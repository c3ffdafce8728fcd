package dev.starling.tensor.host;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** Element access by absolute address. Unchecked: callers guarantee that the address is in an open tensor. */
public final class HostMemory {
    /** All of memory, from address 0, so that a byte offset is an address. */
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** The bits of the largest integers that a double lacks. */
    private static final long LOST = (1 << 11) - 1;

    private HostMemory() {
    }

    /**
     * Returns {@code count} as the length of an array on Java's heap, after a check that {@code bytes} for each element
     * fit into it.
     */
    public static int arrayLength(String op, long count, int bytes) {
        if (count > Integer.MAX_VALUE - 8 || count * bytes > Runtime.getRuntime().maxMemory()) {
            throw new TensorException(TensorException.Problem.MEMORY, op, List.of(), "an array of " + count
                    + " elements does not fit into Java's heap", "use fewer, or give the JVM more memory (-Xmx)");
        }
        return (int) count;
    }

    /** Reads an f32. */
    public static float getFloat(long address) {
        return ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, address);
    }

    /** Writes an f32. */
    public static void putFloat(long address, float value) {
        ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, address, value);
    }

    /** Reads an element as a double; exact for every type except large {@link DType#I64} values. */
    public static double getDouble(DType dtype, long address) {
        return switch (dtype) {
            case F32 -> ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, address);
            case F64 -> ALL.get(ValueLayout.JAVA_DOUBLE_UNALIGNED, address);
            case BF16 -> bf16ToFloat(ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, address));
            case F16 -> Float.float16ToFloat(ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, address));
            case I64, I32, I8, U8, BOOL -> getLong(dtype, address);
        };
    }

    /** Reads an element as a long; floating values are truncated towards zero. */
    public static long getLong(DType dtype, long address) {
        return switch (dtype) {
            case I64 -> ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, address);
            case I32 -> ALL.get(ValueLayout.JAVA_INT_UNALIGNED, address);
            case I8 -> ALL.get(ValueLayout.JAVA_BYTE, address);
            case U8 -> ALL.get(ValueLayout.JAVA_BYTE, address) & 0xff;
            case BOOL -> ALL.get(ValueLayout.JAVA_BYTE, address) != 0 ? 1 : 0;
            case F32, F64, BF16, F16 -> (long) getDouble(dtype, address);
        };
    }

    /**
     * Writes a double to an element: rounded to nearest even for floating types, truncated for integers, {@code != 0}
     * for booleans.
     */
    public static void putDouble(DType dtype, long address, double value) {
        switch (dtype) {
            case F32 -> ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, address, (float) value);
            case F64 -> ALL.set(ValueLayout.JAVA_DOUBLE_UNALIGNED, address, value);
            case BF16 -> ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, address, floatToBf16(toOdd(value)));
            case F16 -> ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, address, Float.floatToFloat16(toOdd(value)));
            case BOOL -> ALL.set(ValueLayout.JAVA_BYTE, address, (byte) (value != 0 ? 1 : 0));
            case I64, I32, I8, U8 -> putLong(dtype, address, (long) value);
        }
    }

    /** Writes a long to an element: rounded once for floating types, with wrap-around if an integer is narrower. */
    public static void putLong(DType dtype, long address, long value) {
        switch (dtype) {
            case I64 -> ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, address, value);
            case I32 -> ALL.set(ValueLayout.JAVA_INT_UNALIGNED, address, (int) value);
            case I8, U8 -> ALL.set(ValueLayout.JAVA_BYTE, address, (byte) value);
            case BOOL -> ALL.set(ValueLayout.JAVA_BYTE, address, (byte) (value != 0 ? 1 : 0));
            case F32 -> ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, address, (float) value);
            case F64 -> ALL.set(ValueLayout.JAVA_DOUBLE_UNALIGNED, address, (double) value);
            case BF16, F16 -> putDouble(dtype, address, toOdd(value));
        }
    }

    /**
     * Narrows to float with an odd last bit where inexact, so that a further rounding to nearest gives the result of a
     * single rounding.
     */
    private static float toOdd(double value) {
        float nearest = (float) value;
        if (nearest == value || Double.isNaN(value)) {
            return nearest;
        }
        int bits = Float.floatToRawIntBits(nearest);
        int truncated = Math.abs((double) nearest) > Math.abs(value) ? bits - 1 : bits;
        return Float.intBitsToFloat(truncated | 1);
    }

    /** Converts to a double that rounds to the same 16 bits: inexact ones get an odd last bit. */
    private static double toOdd(long value) {
        long lost = value & LOST;
        return Math.abs(value) >> 53 == 0 || lost == 0 ? value : value - lost | LOST + 1;
    }

    /** Widens a brain float. */
    public static float bf16ToFloat(short bits) {
        return Float.intBitsToFloat(bits << 16);
    }

    /** Rounds to the nearest brain float, ties to even; NaN stays NaN. */
    public static short floatToBf16(float value) {
        int bits = Float.floatToRawIntBits(value);
        if (Float.isNaN(value)) {
            return (short) (bits >>> 16 | 0x40);
        }
        return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
    }
}
