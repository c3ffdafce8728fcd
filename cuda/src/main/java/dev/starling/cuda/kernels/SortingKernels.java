package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Sorting;

/** {@link Sorting} operations; all sort whole lines, even if only a few elements are needed. */
public final class SortingKernels implements Kernels<Sorting> {
    private static final int MIN_RUN = 64;
    private static final int MAX_RUN = 2048;

    private final Launcher launcher;

    private record SortingKernel(String function, DType type, int run, boolean descending) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("sorting", function, "T", Types.of(type), "RUN", run, "DESCENDING",
                    descending);
        }
    }

    /** Makes the family's kernels for a device. */
    public SortingKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Answer compute(Sorting op, Tensor[] in, Tensor[] out) {
        Tensor x = in[0];
        Tensor values = out[0];
        Tensor indices = out[1];
        if (values.count() > 0) {
            if (isTooLarge(x.size(op.axis()), x.count() / x.size(op.axis()))) {
                return Answer.TOO_LARGE;
            }
            boolean descending = switch (op) {
                case Sorting.Sort o -> o.descending();
                case Sorting.TopK o -> o.largest();
            };
            int axis = op.axis();
            Tensor places = places(x, axis, descending);
            int n = Math.toIntExact(x.size(axis));
            int k = Math.toIntExact(values.size(axis));
            launcher.launch(new SortingKernel("take_first", x.dtype(), run(n), descending)).tensor(values)
                    .tensor(indices).tensor(x).tensor(places).i64(values.count()).i32(n).i32(k)
                    .i64(x.stride(axis)).i64(values.stride(axis)).i64(indices.stride(axis))
                    .layout(lines(axis, x, values, indices), 3).threads(values.count());
        }
        return Answer.HANDLED;
    }

    /**
     * Returns, for each line of {@code x} along a dimension, the positions of its elements in sorted order.
     *
     * @return i32 {@code [lines, size]}
     */
    Tensor places(Tensor x, int axis, boolean descending) {
        int n = Math.toIntExact(x.size(axis));
        int run = run(n);
        int runs = Math.ceilDiv(n, run);
        long lines = x.count() / n;
        Tensor keys = Storage.allocate(new Spec(DType.I64, Shape.of(lines, n), x.device()));
        Tensor places = Storage.allocate(keys.spec().with(DType.I32));
        launcher.launch(new SortingKernel("sort_runs", x.dtype(), run, descending)).tensor(keys).tensor(places)
                .tensor(x).i32(n).i64(x.stride(axis)).layout(lines(axis, x), 1)
                .blocks(lines * runs, run / 2);
        if (runs > 1) {
            Tensor otherKeys = Storage.allocate(keys.spec());
            Tensor otherPlaces = Storage.allocate(places.spec());
            for (long length = run; length < n; length *= 2) {
                launcher.launch(new SortingKernel("merge_runs", x.dtype(), run, descending)).tensor(otherKeys)
                        .tensor(otherPlaces).tensor(keys).tensor(places).i64(keys.count()).i32(n).i32((int) length)
                        .threads(keys.count());
                Tensor swap = keys;
                keys = otherKeys;
                otherKeys = swap;
                swap = places;
                places = otherPlaces;
                otherPlaces = swap;
            }
        }
        return places;
    }

    /** Returns whether there are more lines, elements of a line, or blocks than the kernels can number. */
    static boolean isTooLarge(long n, long lines) {
        return n > Layout.MAX_COUNT || lines > Layout.MAX_COUNT
                || lines * Math.ceilDiv(n, (long) run((int) n)) > Integer.MAX_VALUE;
    }

    private static int run(int n) {
        return Math.clamp(Integer.highestOneBit(Math.max(n - 1, 1)) * 2L, MIN_RUN, MAX_RUN);
    }

    /** Lays out the first elements of the lines along a dimension. */
    static Layout lines(int axis, Tensor... tensors) {
        long[][] strides = new long[tensors.length][];
        for (int i = 0; i < tensors.length; i++) {
            strides[i] = Rows.without(tensors[i].sharedStrides(), axis);
        }
        return Layout.rowMajor(tensors[0].shape().without(axis).dims(), strides);
    }
}
