package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Reductions over dimensions of operands that have one shape; see fold.cuh. A line holds the elements of one result. If
 * the elements of a line are neighbours in memory, 4, 32 or 256 neighbouring threads share a line and combine their
 * partial results by shuffles. If lines are neighbours, a block has 32 columns of threads, each up to 4 lines wide, and
 * 8 rows, which are combined in shared memory. In both cases a warp reads neighbours, in vectors of up to 16 bytes if
 * strides and alignment allow it. If there are too few lines to fill the device, they are cut into pieces, and a second
 * kernel combines the pieces. Partial results are always combined in the same order, so results are deterministic.
 */
final class Fold {
    private static final int THREADS = 256;
    private static final int COLUMNS = 32;
    private static final int ROWS = THREADS / COLUMNS;
    private static final int MAX_WIDTH_OF_COLUMNS = 4;
    /** The fewest vectors per thread for which a line is cut. */
    private static final int MIN_WORK = 8;
    private static final int MAX_PIECES = 1024;
    private static final int VECTOR_BYTES = 16;

    private final Launcher launcher;
    private final Problem problem;
    private final Tensor[] operands;
    private final Tensor[] keptViews;
    private final Tensor[] foldViews;
    private final Shape keptShape;
    private final Shape foldShape;

    /** A reduction: a small record of what its kernel is specialised for. */
    interface Problem {
        /** Returns the source of a kernel that fold.cuh defines. */
        KernelSource source(String function, int group, int width);

        /** Returns the size of a partial result in bytes. */
        int partBytes();

        /** Returns whether the reduction depends on the elements' row-major numbers. */
        default boolean numbered() {
            return false;
        }
    }

    private record FoldKernel(Problem problem, String function, int group, int width) implements Kernel {
        @Override
        public KernelSource source() {
            return problem.source(function, group, width);
        }
    }

    /** The distribution of threads: over one line, or over several neighbouring lines. */
    private record Plan(boolean columns, int group, int width, long blocks, int pieces, int length) { }

    private Fold(Launcher launcher, Problem problem, Axes axes, Tensor... operands) {
        this.launcher = launcher;
        this.problem = problem;
        this.operands = operands;
        keptShape = part(operands[0].shape(), axes, false);
        foldShape = part(operands[0].shape(), axes, true);
        keptViews = new Tensor[operands.length + 1];
        foldViews = new Tensor[operands.length];
        for (int k = 0; k < operands.length; k++) {
            Tensor x = operands[k];
            keptViews[k] = Relabelled.view(x, keptShape, strides(x, axes, false), x.offset());
            foldViews[k] = Relabelled.view(x, foldShape, strides(x, axes, true), x.offset());
        }
    }

    /**
     * Reduces operands of one shape.
     *
     * @param result a dense tensor with one element for each line
     * @param arguments appends the members of the problem's struct to a launch
     * @return declined if there are too many lines, or if they are too long
     */
    static Answer run(Launcher launcher, Problem problem, Axes axes, Tensor result, UnaryOperator<Launch> arguments,
            Tensor... operands) {
        return new Fold(launcher, problem, axes, operands).run(result, arguments);
    }

    private Answer run(Tensor result, UnaryOperator<Launch> arguments) {
        long outputs = keptShape.count();
        long count = foldShape.count();
        if (outputs > Layout.MAX_COUNT || count > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        if (outputs == 0) {
            return Answer.HANDLED;
        }
        keptViews[operands.length] = Relabelled.view(result, keptShape, keptShape.sharedStrides(), result.offset());
        Layout kept = Layout.of(keptShape, keptViews);
        Layout fold = count == 0 ? Layout.folded(Shape.of(), true, new Tensor[operands.length])
                : Layout.folded(foldShape, problem.numbered(), foldViews);
        Plan plan = plan(kept, fold, outputs, count);
        Tensor parts = plan.pieces == 1 ? null : Storage.allocate(new Spec(DType.U8,
                Shape.of(outputs * plan.pieces * problem.partBytes()), result.device()));
        launch(plan, plan.columns ? "columns" : "rows", arguments, parts).i32((int) count).i32(plan.length)
                .layout(kept, operands.length + 1).layout(fold, operands.length)
                .grid((int) plan.blocks, plan.pieces, 1, THREADS);
        if (parts != null) {
            launch(plan, "finish", arguments, parts).i32((int) outputs).i32(plan.pieces)
                    .threads(outputs * COLUMNS);
        }
        return Answer.HANDLED;
    }

    private Launch launch(Plan plan, String function, UnaryOperator<Launch> arguments, @Nullable Tensor parts) {
        return arguments.apply(launcher.launch(new FoldKernel(problem, function, plan.group, plan.width)))
                .tensor(parts);
    }

    private Plan plan(Layout kept, Layout fold, long outputs, long count) {
        int bytes = 1;
        for (Tensor x : operands) {
            bytes = Math.max(bytes, x.dtype().bytes());
        }
        int width = VECTOR_BYTES / bytes;
        long step = Math.abs(fold.stride(0, fold.rank() - 1));
        boolean columns = outputs > 1 && Math.abs(kept.stride(0, kept.rank() - 1)) < step;
        if (columns) {
            width = Math.min(width, MAX_WIDTH_OF_COLUMNS);
            width = areNeighbours(kept, fold, width, false) ? width : 1;
            long blocks = (outputs + COLUMNS * width - 1) / (COLUMNS * width);
            return cut(true, THREADS, width, blocks, count, (long) ROWS * MIN_WORK);
        }
        width = fold.rank() == 1 && areNeighbours(fold, kept, width, true) ? width : 1;
        long vectors = count / width;
        int group = vectors <= 16 ? 4 : vectors <= 512 ? 32 : THREADS;
        long blocks = (outputs * group + THREADS - 1) / THREADS;
        return cut(false, group, width, blocks, count, group == THREADS ? (long) group * width * MIN_WORK : count);
    }

    /** Cuts lines into as many pieces as fill the device, of at least {@code minLength} elements. */
    private Plan cut(boolean columns, int group, int width, long blocks, long count, long minLength) {
        long wanted = launcher.gpu().processors() * 8L / blocks;
        long pieces = Math.clamp(Math.min(wanted, count / Math.max(minLength, 1)), 1, MAX_PIECES);
        long length = Math.max((count + pieces - 1) / pieces, 1);
        length = (length + width - 1) / width * width;
        return new Plan(columns, group, width, blocks, (int) Math.max((count + length - 1) / length, 1), (int) length);
    }

    /** Returns whether vectors of {@code width} elements can be read along the innermost dimension of {@code inner}. */
    private boolean areNeighbours(Layout inner, Layout outer, int width, boolean anyLength) {
        int last = inner.rank() - 1;
        if (!anyLength && inner.size(last) % width != 0) {
            return false;
        }
        for (int k = 0; k < operands.length; k++) {
            boolean fits = inner.stride(k, last) == 1
                    && operands[k].address() % ((long) width * operands[k].dtype().bytes()) == 0;
            for (int d = 0; d < last; d++) {
                fits &= inner.stride(k, d) % width == 0;
            }
            for (int d = 0; d < outer.rank(); d++) {
                fits &= outer.size(d) == 1 || outer.stride(k, d) % width == 0;
            }
            if (!fits) {
                return false;
            }
        }
        return true;
    }

    private static Shape part(Shape shape, Axes axes, boolean folded) {
        long[] dims = new long[shape.rank()];
        int n = 0;
        for (int d = 0; d < dims.length; d++) {
            if (axes.contains(d) == folded) {
                dims[n++] = shape.dim(d);
            }
        }
        return Shape.of(java.util.Arrays.copyOf(dims, n));
    }

    private static long[] strides(Tensor x, Axes axes, boolean folded) {
        long[] strides = new long[x.rank()];
        int n = 0;
        for (int d = 0; d < strides.length; d++) {
            if (axes.contains(d) == folded) {
                strides[n++] = x.stride(d);
            }
        }
        return java.util.Arrays.copyOf(strides, n);
    }
}
