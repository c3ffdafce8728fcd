package dev.starling.distributed.collective.reduce;

import dev.starling.distributed.ReduceOp;
import static dev.starling.distributed.collective.reduce.ReduceKernels.ALL;

import dev.starling.tensor.DType;
import java.lang.foreign.ValueLayout;

/** Scalar reductions: the reference, the path without the Vector API, and the remainder of the vectorised loops. */
final class ScalarReduce {
    private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED;
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED;
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG_UNALIGNED;
    private static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT_UNALIGNED;
    private static final ValueLayout.OfDouble DOUBLE = ValueLayout.JAVA_DOUBLE_UNALIGNED;

    private ScalarReduce() {
    }

    static void run(DType type, ReduceOp op, long[] sources, long[] targets, long offset, long count,
            int ranks) {
        long end = offset + count * type.bytes();
        for (long at = offset; at < end; at += type.bytes()) {
            switch (type) {
                case F64, F32, BF16, F16 -> reduceReal(type, op, sources, targets, at, ranks);
                case I32, I64 -> reduceLong(type, op, sources, targets, at, ranks);
                case I8, U8, BOOL -> throw new AssertionError(type);
            }
        }
    }

    /** Computes in double; narrower types round to float after each operation, which equals float arithmetic. */
    private static void reduceReal(DType type, ReduceOp op, long[] sources, long[] targets, long at, int ranks) {
        boolean wide = type == DType.F64;
        double result = getReal(type, sources[0] + at);
        for (int s = 1; s < sources.length; s++) {
            double both = reduce(op, result, getReal(type, sources[s] + at));
            result = wide ? both : (float) both;
        }
        if (op == ReduceOp.AVERAGE) {
            double average = result * (wide ? 1.0 / ranks : (float) (1.0 / ranks));
            result = wide ? average : (float) average;
        }
        for (long target : targets) {
            setReal(type, target + at, result);
        }
    }

    /** As {@link ReduceKernels#reduceWide}, for the elements from {@code from} on. */
    static void runWide(DType type, ReduceOp op, long[] sources, boolean continues, long partial, long[] targets,
            int from, int count, int ranks) {
        for (int i = from; i < count; i++) {
            long at = (long) i * type.bytes();
            long part = partial + (long) i * Float.BYTES;
            float result = continues ? ALL.get(FLOAT, part) : (float) getReal(type, sources[0] + at);
            for (int s = continues ? 0 : 1; s < sources.length; s++) {
                result = (float) reduce(op, result, getReal(type, sources[s] + at));
            }
            if (targets.length == 0) {
                ALL.set(FLOAT, part, result);
            } else if (op == ReduceOp.AVERAGE) {
                result *= (float) (1.0 / ranks);
            }
            for (long target : targets) {
                setReal(type, target + at, result);
            }
        }
    }

    private static double reduce(ReduceOp op, double result, double next) {
        return switch (op) {
            case SUM, AVERAGE -> result + next;
            case PRODUCT -> result * next;
            case MIN -> Math.min(result, next);
            case MAX -> Math.max(result, next);
        };
    }

    private static void reduceLong(DType type, ReduceOp op, long[] sources, long[] targets, long at,
            int ranks) {
        long result = getLong(type, sources[0] + at);
        for (int s = 1; s < sources.length; s++) {
            long next = getLong(type, sources[s] + at);
            result = switch (op) {
                case SUM, AVERAGE -> result + next;
                case PRODUCT -> result * next;
                case MIN -> Math.min(result, next);
                case MAX -> Math.max(result, next);
            };
        }
        if (op == ReduceOp.AVERAGE) {
            result /= ranks;
        }
        for (long target : targets) {
            if (type == DType.I32) {
                ALL.set(INT, target + at, (int) result);
            } else {
                ALL.set(LONG, target + at, result);
            }
        }
    }

    private static long getLong(DType type, long address) {
        return type == DType.I32 ? ALL.get(INT, address) : ALL.get(LONG, address);
    }

    private static double getReal(DType type, long address) {
        return switch (type) {
            case F64 -> ALL.get(DOUBLE, address);
            case BF16 -> Float.intBitsToFloat(ALL.get(SHORT, address) << 16);
            case F16 -> Float.float16ToFloat(ALL.get(SHORT, address));
            default -> ALL.get(FLOAT, address);
        };
    }

    private static void setReal(DType type, long address, double value) {
        switch (type) {
            case F64 -> ALL.set(DOUBLE, address, value);
            case BF16 -> ALL.set(SHORT, address, toBrainFloat((float) value));
            case F16 -> ALL.set(SHORT, address, Float.floatToFloat16((float) value));
            default -> ALL.set(FLOAT, address, (float) value);
        }
    }

    /** Rounds to the nearest brain float, ties to even; NaN stays NaN. */
    private static short toBrainFloat(float value) {
        int bits = Float.floatToRawIntBits(value);
        return (short) (Float.isNaN(value) ? bits >>> 16 | 0x40 : bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
    }
}
