package dev.starling.distributed.collective.reduce;

import dev.starling.distributed.ReduceOp;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.VectorApi;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Reduces several memories element by element, in the order of the sources, so that the result has the same bits on
 * every rank that computes it. One pass reads all sources and writes all targets; targets may be sources, so no element
 * is copied twice. For one thread at a time.
 */
public final class ReduceKernels {
    /** All of memory: base 0, so that a byte offset is an address. */
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** Sources and targets that one pass takes. */
    static final int FAN = 4;

    /** Number of elements reduced at a time, so that a partial result stays in the first-level cache. */
    private static final int BLOCK = 2048;

    private static final boolean VECTORISED = VectorApi.isPresent();

    static {
        if (VECTORISED) {
            ReduceKernels.class.getModule().addReads(VectorApi.module());
        }
    }

    private final Arena arena = Arena.ofAuto();
    private final MemorySegment partial = arena.allocate(BLOCK * 8L, 64);

    /** Returns whether elements of this type can be reduced. */
    public static boolean supports(DType type) {
        return switch (type) {
            case F32, F64, BF16, F16, I32, I64 -> true;
            case I8, U8, BOOL -> false;
        };
    }

    /**
     * Reduces {@code count} adjacent elements of each source, and writes the result to each target.
     *
     * @param sources addresses, in the order of the reduction; at least one
     * @param targets addresses; each target is one of the sources or overlaps none of them
     * @param offset bytes added to each address
     * @throws TensorException if the type {@linkplain #supports cannot be reduced}
     */
    public void reduce(DType type, ReduceOp op, long[] sources, long[] targets, long offset, long count) {
        reduce(type, op, sources, targets, offset, count, sources.length);
    }

    /** As above, if a source may be the sum over several ranks; {@code ranks} is the divisor of an average. */
    public void reduce(DType type, ReduceOp op, long[] sources, long[] targets, long offset, long count, int ranks) {
        if (!supports(type)) {
            throw TensorException.argument("collective", "elements of " + type + " cannot be reduced",
                    "convert them to i32");
        }
        int lanes = VECTORISED ? VectorReduceLoops.lanes(type, op) : 0;
        long done = lanes == 0 ? 0 : count / lanes * lanes;
        for (long from = 0; from < done; from += blockLength(sources.length)) {
            int n = (int) Math.min(blockLength(sources.length), done - from);
            reduceBlock(type, op, sources, targets, offset + from * type.bytes(), n, ranks);
        }
        ScalarReduce.run(type, op, sources, targets, offset + done * type.bytes(), count - done,
                ranks);
    }

    /** Returns whether partial results must be wider than the elements, because they would be rounded at each step. */
    public static boolean needsWide(DType type, ReduceOp op) {
        return type.bytes() == 2 && op != ReduceOp.MIN && op != ReduceOp.MAX;
    }

    /**
     * Reduces 16-bit floats in f32, and writes the rounded result to the targets. Without targets the result stays in
     * {@code partial}, unrounded.
     *
     * @param sources at most {@value #FAN} addresses
     * @param continues whether the reduction starts from the values in {@code partial}
     * @param partial address of {@code count} f32 values
     * @param targets at most {@value #FAN} addresses
     */
    public void reduceWide(DType type, ReduceOp op, long[] sources, boolean continues,
            long partial, long[] targets, int count, int ranks) {
        int lanes = VECTORISED ? VectorReduceLoops.lanes(type, op) : 0;
        int done = lanes == 0 ? 0 : count / lanes * lanes;
        if (done > 0) {
            VectorReduceLoops.get(type, op, sources.length, targets.length, continues)
                .run(sources, 0, targets, 0, partial, done, op == ReduceOp.AVERAGE ? 1.0 / ranks : 1);
        }
        ScalarReduce.runWide(type, op, sources, continues, partial, targets, done, count, ranks);
    }

    private static int blockLength(int sources) {
        return sources <= FAN ? 1 << 20 : BLOCK;
    }

    private void reduceBlock(DType type, ReduceOp op, long[] sources, long[] targets, long offset, int n,
            int ranks) {
        int ends = Math.min(FAN, targets.length);
        double scale = op == ReduceOp.AVERAGE ? 1.0 / ranks : 1;
        for (int first = 0; first < sources.length; first += FAN) {
            int fan = Math.min(FAN, sources.length - first);
            boolean last = first + fan == sources.length;
            VectorReduceLoops.get(type, op, fan, last ? ends : 0, first > 0)
                .run(sources, first, targets, offset, partial.address(), n, scale);
        }
        for (int t = ends; t < targets.length; t++) {
            copy(targets[0] + offset, targets[t] + offset, (long) n * type.bytes());
        }
    }

    /** Copies between addresses that are equal or do not overlap. */
    public static void copy(long from, long to, long bytes) {
        if (from != to) {
            MemorySegment.copy(ALL, from, ALL, to, bytes);
        }
    }
}
