package dev.starling.distributed.collective.reduce;

import dev.starling.distributed.ReduceOp;
import dev.starling.tensor.DType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.atomic.AtomicReferenceArray;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;

/**
 * Vectorised loops, one for each {@link Kind} of reduction. Each is a copy of {@link VectorReduceLoop} with its kind as
 * a constant, because the compiler produces a tight loop only if it knows the operations.
 */
final class VectorReduceLoops {
    private static final int TYPES = DType.values().length;
    private static final int OPS = ReduceOp.values().length;
    private static final int WAYS = ReduceKernels.FAN * (ReduceKernels.FAN + 1) * 2;
    private static final AtomicReferenceArray<Loop> LOOPS = new AtomicReferenceArray<>(TYPES * OPS * WAYS);
    private static final byte[] TEMPLATE = template();

    private VectorReduceLoops() {
    }

    /** Returns the number of elements of one vector; 0 if there is no vectorised loop. */
    static int lanes(DType type, ReduceOp op) {
        int bits = VectorShape.preferredShape().vectorBitSize();
        return switch (type) {
            case F32, BF16, F16 -> bits / 32;
            case F64 -> bits / 64;
            case I32 -> op == ReduceOp.AVERAGE ? 0 : bits / 32;
            case I64 -> op == ReduceOp.AVERAGE ? 0 : bits / 64;
            case I8, U8, BOOL -> 0;
        };
    }

    /**
     * Returns a loop.
     *
     * @param sources number of sources, 1 to {@link ReduceKernels#FAN}
     * @param targets number of targets, up to {@link ReduceKernels#FAN}; 0 if the result is partial
     * @param continues whether the loop starts from a partial result
     */
    static Loop get(DType type, ReduceOp op, int sources, int targets, boolean continues) {
        int way = ((sources - 1) * (ReduceKernels.FAN + 1) + targets) * 2 + (continues ? 1 : 0);
        int at = (type.ordinal() * OPS + op.ordinal()) * WAYS + way;
        Loop loop = LOOPS.get(at);
        if (loop == null) {
            loop = define(new Kind(type, operator(op), op == ReduceOp.AVERAGE && targets > 0, sources, targets,
                continues));
            LOOPS.set(at, loop);
        }
        return loop;
    }

    private static VectorOperators.Associative operator(ReduceOp op) {
        return switch (op) {
            case SUM, AVERAGE -> VectorOperators.ADD;
            case PRODUCT -> VectorOperators.MUL;
            case MIN -> VectorOperators.MIN;
            case MAX -> VectorOperators.MAX;
        };
    }

    private static Loop define(Kind kind) {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup().defineHiddenClassWithClassData(TEMPLATE, kind, true);
            return (Loop) lookup.findConstructor(lookup.lookupClass(), MethodType.methodType(void.class)).invoke();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    private static byte[] template() {
        try (InputStream in = VectorReduceLoops.class.getResourceAsStream("VectorReduceLoop.class")) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A loop over adjacent elements. */
    interface Loop {
        /**
         * Reduces {@code n} elements, a multiple of {@link #lanes}.
         *
         * @param first index of the first source
         * @param offset bytes added to the addresses of sources and targets
         * @param partial address of partial results: f32 for 16-bit floats, else the type itself
         * @param scale factor of an average
         */
        void run(long[] sources, int first, long[] targets, long offset, long partial, int n, double scale);
    }

    /** The operation of a loop. */
    record Kind(DType type, VectorOperators.Associative operator, boolean scaled, int sources, int targets,
            boolean continues) { }
}
