package dev.starling.distributed.collective.reduce;

import dev.starling.distributed.ReduceOp;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Reduces several memories element by element, in the order of the sources, so that the result has the same bits on
 * every rank that computes it. One pass reads all sources and writes all targets; targets may be sources, so no element
 * is copied twice. The loops are those of the CPU backend's generator. For one thread at a time.
 */
public final class ReduceKernels {
    /** All of memory: base 0, so that a byte offset is an address. */
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** Sources and targets that one pass takes. */
    static final int FAN = 4;
    /** Number of elements reduced at a time, so that a partial result stays in the first-level cache. */
    private static final int BLOCK = 2048;
    private static final int OPS = ReduceOp.values().length;
    private static final int WAYS = FAN * (FAN + 1) * 2;
    /** Loops by type, operation, numbers of sources and targets, and whether they continue a partial result. */
    private static final AtomicReferenceArray<FusedLoop> LOOPS =
            new AtomicReferenceArray<>(DType.values().length * OPS * WAYS);

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
        int block = sources.length <= FAN ? Launch.TILE : BLOCK;
        for (long from = 0; from < count; from += block) {
            reduceBlock(type, op, sources, targets, offset + from * type.bytes(), (int) Math.min(block, count - from),
                    ranks);
        }
    }

    /**
     * Returns whether partial results must be twice as wide as the elements, because they would be rounded at each
     * step, or the sum of an average would wrap.
     */
    public static boolean needsWide(DType type, ReduceOp op) {
        return type.bytes() == 2 && op != ReduceOp.MIN && op != ReduceOp.MAX
                || type == DType.I32 && op == ReduceOp.AVERAGE;
    }

    /**
     * Reduces 16-bit floats in f32, or averages i32 in i64, and writes the result to the targets. Without targets the
     * partial result stays in {@code partial}, neither rounded nor divided.
     *
     * @param sources at most {@value #FAN} addresses
     * @param continues whether the reduction starts from the values in {@code partial}
     * @param partial address of {@code count} values of twice the width
     * @param targets at most {@value #FAN} addresses
     */
    public void reduceWide(DType type, ReduceOp op, long[] sources, boolean continues,
            long partial, long[] targets, int count, int ranks) {
        for (int from = 0; from < count; from += Launch.TILE) {
            Launch launch = Launch.of(loop(type, op, sources.length, targets.length, continues));
            run(launch, type, op, sources, 0, sources.length, continues, targets, targets.length,
                    (long) from * type.bytes(), partial + 2L * from * type.bytes(),
                    Math.min(Launch.TILE, count - from), ranks);
        }
    }

    private void reduceBlock(DType type, ReduceOp op, long[] sources, long[] targets, long offset, int n,
            int ranks) {
        int ends = Math.min(FAN, targets.length);
        for (int first = 0; first < sources.length; first += FAN) {
            int fan = Math.min(FAN, sources.length - first);
            int outputs = first + fan == sources.length ? ends : 0;
            Launch launch = Launch.of(loop(type, op, fan, outputs, first > 0));
            run(launch, type, op, sources, first, fan, first > 0, targets, outputs, offset, partial.address(), n,
                    ranks);
        }
        for (int t = ends; t < targets.length; t++) {
            copy(targets[0] + offset, targets[t] + offset, (long) n * type.bytes());
        }
    }

    /** Runs a loop over at most {@link Launch#TILE} elements, on this thread. */
    private static void run(Launch launch, DType type, ReduceOp op, long[] sources, int first, int fan,
            boolean continues, long[] targets, int outputs, long offset, long partial, int n, int ranks) {
        int operand = 0;
        if (continues) {
            launch.operand(operand++, partial);
        }
        for (int s = first; s < first + fan; s++) {
            launch.operand(operand++, sources[s] + offset);
        }
        for (int t = 0; t < outputs; t++) {
            launch.operand(operand++, targets[t] + offset);
        }
        if (outputs == 0) {
            launch.operand(operand, partial);
        } else if (op == ReduceOp.AVERAGE && type.isFloating()) {
            launch.parameter(0, 1.0 / ranks);
        } else if (op == ReduceOp.AVERAGE) {
            launch.parameter(0, (long) ranks);
        }
        launch.runFlat(n);
    }

    private static FusedLoop loop(DType type, ReduceOp op, int sources, int targets, boolean continues) {
        int way = ((sources - 1) * (FAN + 1) + targets) * 2 + (continues ? 1 : 0);
        int at = (type.ordinal() * OPS + op.ordinal()) * WAYS + way;
        FusedLoop known = LOOPS.get(at);
        if (known == null) {
            known = FusedLoop.of(expression(type, op, sources, targets, continues));
            LOOPS.set(at, known);
        }
        return known;
    }

    /**
     * Returns what a loop computes. Its inputs are the partial result if it continues one, and the sources; its outputs
     * are the targets or, without any, the partial result. A partial result is rounded and divided only at the end.
     */
    private static Expression expression(DType type, ReduceOp op, int sources, int targets, boolean continues) {
        DType wide = type.bytes() == 2 ? DType.F32 : op == ReduceOp.AVERAGE && type == DType.I32 ? DType.I64 : type;
        Opcode opcode = switch (op) {
            case SUM, AVERAGE -> Opcode.ADD;
            case PRODUCT -> Opcode.MUL;
            case MIN -> Opcode.MINIMUM;
            case MAX -> Opcode.MAXIMUM;
        };
        Expression.Builder builder = new Expression.Builder();
        Value result = continues ? builder.input(wide) : builder.cast(builder.input(type), wide);
        for (int s = continues ? 0 : 1; s < sources; s++) {
            result = builder.apply(opcode, result, builder.cast(builder.input(type), wide));
        }
        if (op == ReduceOp.AVERAGE && targets > 0) {
            result = builder.apply(type.isFloating() ? Opcode.MUL : Opcode.DIV, result, builder.parameter(wide));
        }
        result = builder.cast(result, targets > 0 ? type : wide);
        for (int t = 0; t < Math.max(1, targets); t++) {
            builder.output(result);
        }
        return builder.build();
    }

    /** Copies between addresses that are equal or do not overlap. */
    public static void copy(long from, long to, long bytes) {
        if (from != to) {
            MemorySegment.copy(ALL, from, ALL, to, bytes);
        }
    }
}
