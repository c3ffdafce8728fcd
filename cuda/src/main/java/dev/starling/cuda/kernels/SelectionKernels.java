package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.gpu.Waits;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.TensorException.Problem;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Selection;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * {@link Selection} operations. The kernels check indices and report bad ones to {@link Faults}.
 */
public final class SelectionKernels implements Kernels<Selection> {
    private static final int CHUNK = 1024;
    private static final int THREADS = 256;
    private static final int VECTOR_BYTES = 16;

    private final Launcher launcher;
    private final SortingKernels sorting;

    /** A kernel for elements of a type, given by its C++ name, and indices of another type. */
    private record SelectionKernel(String function, String type, DType index, boolean add) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("selection", function, "T", type, "INDEX", Types.of(index), "ADD", add);
        }
    }

    /** Makes the family's kernels for a device. */
    public SelectionKernels(Launcher launcher, SortingKernels sorting) {
        this.launcher = launcher;
        this.sorting = sorting;
    }

    @Override
    public Answer compute(Selection op, Tensor[] in, Tensor[] out) {
        if (isTooLarge(op, in, out[0])) {
            return Answer.TOO_LARGE;
        }
        switch (op) {
            case Selection.Take o -> take(o, in[0], in[1], out[0]);
            case Selection.TakeGradient o -> takeGradient(o, in[0], in[1], out[0]);
            case Selection.Gather o -> gather(o, in[0], in[1], out[0]);
            case Selection.Scatter o -> scatter(o, o.axis(), false, in, out[0]);
            case Selection.ScatterAdd o -> scatter(o, o.axis(), true, in, out[0]);
            case Selection.Nonzero o -> nonzero(o, in[0], out[0]);
        }
        return Answer.HANDLED;
    }

    /** Returns whether there are more indices, or elements of a slice, than the kernels can number. */
    private static boolean isTooLarge(Selection op, Tensor[] in, Tensor y) {
        return switch (op) {
            case Selection.Take(int axis) -> Math.max(in[1].count(), inner(in[0], axis)) > Integer.MAX_VALUE;
            case Selection.TakeGradient(int axis, _) -> SortingKernels.isTooLarge(in[1].count(), 1)
                    || inner(y, axis) > Integer.MAX_VALUE;
            case Selection.Scatter(int axis) -> isTooLarge(in[1], axis);
            case Selection.ScatterAdd(int axis) -> isTooLarge(in[1], axis);
            case Selection.Gather _, Selection.Nonzero _ -> false;
        };
    }

    private static boolean isTooLarge(Tensor index, int axis) {
        return index.count() > 0 && SortingKernels.isTooLarge(index.size(axis), index.count() / index.size(axis));
    }

    private static long inner(Tensor x, int axis) {
        return x.shape().slice(axis + 1, x.rank()).count();
    }

    private void take(Selection.Take op, Tensor x, Tensor index, Tensor y) {
        if (index.count() == 0) {
            return;
        }
        Tensor from = launcher.dense(x);
        Tensor indices = launcher.dense(index);
        int axis = op.axis();
        long bytes = inner(x, axis) * x.dtype().bytes();
        int word = (int) Long.lowestOneBit(bytes | from.address() | y.address() | 8);
        if (y.count() == 0) {
            check(op, indices, x.size(axis), x, index);
        } else {
            long count = y.spec().bytes() / word;
            int fault = launcher.faults().register(op, x.size(axis), x, index);
            launcher.launch(new SelectionKernel("take", word(word), index.dtype(), false)).tensor(y).tensor(from)
                    .tensor(indices).i64(count).i32(Math.toIntExact(index.count())).i64(x.size(axis))
                    .i32(Math.toIntExact(bytes / word)).fault(fault).threads(count);
        }
    }

    private void gather(Selection.Gather op, Tensor x, Tensor index, Tensor y) {
        int axis = op.axis();
        long[] strides = x.strides();
        strides[axis] = 0;
        int bytes = x.dtype().bytes();
        int fault = launcher.faults().register(op, x.size(axis), x, index);
        long[] done = new long[1];
        Layout.rowMajor(index.shape().dims(), y.sharedStrides(), index.sharedStrides(), strides)
                .inPieces(Layout.MAX_COUNT, (layout, offsets) -> {
                    launcher.launch(new SelectionKernel("gather", word(bytes), index.dtype(), false))
                            .i64(y.address() + offsets[0] * bytes)
                            .i64(index.address() + offsets[1] * index.dtype().bytes())
                            .i64(x.address() + offsets[2] * bytes).i64(x.size(axis)).i64(x.stride(axis))
                            .i64(done[0]).fault(fault).layout(layout, 3).threads(layout.count());
                    done[0] += layout.count();
                });
    }

    private void scatter(Op op, int axis, boolean add, Tensor[] in, Tensor y) {
        Tensor base = in[0];
        Tensor index = in[1];
        Tensor source = in[2];
        launcher.assign(y, base);
        if (index.count() == 0) {
            return;
        }
        Tensor keys = fromFront(op, index, axis, base.size(axis), in);
        Tensor places = sorting.places(keys, 1, false);
        long[][] strides = {Rows.without(y.sharedStrides(), axis), Rows.without(source.sharedStrides(), axis)};
        launcher.launch(new SelectionKernel("scatter", Types.of(y.dtype()), DType.I64, add)).tensor(y)
                .tensor(source).tensor(keys).tensor(places).i64(index.count()).i32((int) index.size(axis))
                .i64(y.stride(axis)).i64(source.stride(axis))
                .layout(Layout.rowMajor(index.shape().without(axis).dims(), strides), 2).threads(index.count());
    }

    private void takeGradient(Selection.TakeGradient op, Tensor g, Tensor index, Tensor y) {
        launcher.fill(y, 0);
        if (index.count() == 0) {
            return;
        }
        Tensor indices = launcher.dense(index);
        Tensor line = Relabelled.view(indices, Shape.of(index.count()), new long[] {1}, indices.offset());
        Tensor keys = fromFront(op, line, 0, op.size(), g, index);
        if (g.count() > 0) {
            Tensor places = sorting.places(keys, 1, false);
            Tensor from = launcher.dense(g);
            int inner = Math.toIntExact(inner(y, op.axis()));
            int width = VECTOR_BYTES / y.dtype().bytes();
            boolean vectors = inner % width == 0 && (y.address() | from.address()) % VECTOR_BYTES == 0;
            launcher.launch(new SelectionKernel("take_gradient", Types.of(y.dtype()), DType.I64, true)).tensor(y)
                    .tensor(from).tensor(keys).tensor(places).i64(g.count()).i32((int) index.count()).i64(op.size())
                    .i32(inner).bool(vectors).threads(vectors ? g.count() / width : g.count());
        }
    }

    private void check(Op op, Tensor index, long size, Tensor... operands) {
        Tensor line = Relabelled.view(index, Shape.of(index.count()), new long[] {1}, index.offset());
        fromFront(op, line, 0, size, operands);
    }

    /**
     * Returns indices as i64 {@code [lines, n]} along a dimension, counted from the front; -1 for those out of range.
     */
    private Tensor fromFront(Op op, Tensor index, int axis, long size, Tensor... operands) {
        int n = Math.toIntExact(index.size(axis));
        Tensor keys = Storage.allocate(new Spec(DType.I64, Shape.of(index.count() / n, n), index.device()));
        int fault = launcher.faults().register(op, size, operands);
        launcher.launch(new SelectionKernel("from_front", "u8", index.dtype(), false)).tensor(keys).tensor(index)
                .i64(index.count()).i32(n).i64(size).i64(index.stride(axis))
                .i64(inner(index, axis)).fault(fault)
                .layout(SortingKernels.lines(axis, index), 1).threads(index.count());
        return keys;
    }

    private void nonzero(Selection.Nonzero op, Tensor x, Tensor y) {
        long chunks = Math.ceilDiv(x.count(), (long) CHUNK);
        Tensor from = launcher.dense(x);
        Tensor counts = Storage.allocate(new Spec(DType.I64, Shape.of(chunks), x.device()));
        String type = Types.of(x.dtype());
        long found = launcher.faults().answer();
        launcher.launch(new SelectionKernel("count_nonzero", type, DType.I64, false)).tensor(counts).tensor(from)
                .i64(x.count()).blocks(chunks, THREADS);
        launcher.launch(new SelectionKernel("sum_counts", type, DType.I64, false)).tensor(counts).i64(chunks)
                .i64(found).blocks(1, THREADS);
        Launch launch = launcher.launch(new SelectionKernel("write_nonzero", type, DType.I64, false)).tensor(y)
                .tensor(from).i64(x.count()).i64(chunks).tensor(counts).i64(op.count()).i32(x.rank()).align(8);
        for (int d = 0; d < Shape.MAX_RANK; d++) {
            launch.i64(d < x.rank() ? x.size(d) : 1);
        }
        launch.threads(chunks * 32);
        Waits.synchronize(launcher.gpu(), launcher.stream(), "size of a selection");
        long actual = MemorySegment.ofAddress(found).reinterpret(Long.BYTES).get(ValueLayout.JAVA_LONG, 0);
        if (actual != op.count()) {
            throw new TensorException(Problem.ARGUMENT, op.name(), List.of(x.spec()),
                    actual + " elements are not 0, the operation expects " + op.count(),
                    "count them first, or use the method nonzero");
        }
    }

    /** Returns a type of the given size, for elements that are only moved. */
    private static String word(int bytes) {
        return switch (bytes) {
            case 1 -> "u8";
            case 2 -> "bf16";
            case 4 -> "i32";
            default -> "i64";
        };
    }
}
