package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Reduces windows over 1, 2 or 3 spatial dimensions: {@code x [N, C, *in]} to {@code y [N, C, *out]}. */
public sealed interface Pooling extends Op {
    /** Returns the window. */
    Window window();

    /**
     * The geometry of a window, with one value for each of 1 to 3 spatial dimensions. A window has fewer than 2²⁸
     * elements; the window and the padded input are shorter than 2³⁰ in each dimension.
     *
     * @param kernel size of the window
     * @param stride distance between neighbouring windows
     * @param padding on each side, at most half of the kernel; padding is never the maximum
     * @param dilation distance between neighbouring window elements
     * @param ceil whether a last window that starts inside and ends outside counts
     */
    record Window(int[] kernel, int[] stride, int[] padding, int[] dilation, boolean ceil) {
        private static final long MAX_ELEMENTS = 1L << 28;
        private static final long LONGEST = 1L << 30;

        /** Copies the arrays, as {@link Convolution.Geometry} does. */
        public Window {
            kernel = kernel.clone();
            stride = stride.clone();
            padding = padding.clone();
            dilation = dilation.clone();
        }

        /**
         * Makes a window of {@code rank} equal dimensions without dilation.
         *
         * @throws TensorException if {@code rank} is not 1 to 3
         */
        public static Window of(int rank, int kernel, int stride, int padding) {
            return new Window(repeat(rank, kernel), repeat(rank, stride), repeat(rank, padding), repeat(rank, 1),
                    false);
        }

        private static int[] repeat(int rank, int value) {
            return Check.spatial("pooling", rank, value);
        }

        /** Returns the number of spatial dimensions. */
        public int rank() {
            return kernel.length;
        }

        /** Returns the size of the output in spatial dimension {@code i}. */
        public long out(int i, long in) {
            long span = in + 2L * padding[i] - (long) dilation[i] * (kernel[i] - 1) - 1;
            long n = (ceil ? Math.ceilDiv(span, (long) stride[i]) : Math.floorDiv(span, (long) stride[i])) + 1;
            return ceil && (n - 1) * stride[i] >= in + padding[i] ? n - 1 : n;
        }

        /**
         * Returns whether a padded input of size {@code in} and the dilated window are shorter than 2³⁰ in dimension
         * {@code i}.
         */
        private boolean fits(int i, long in) {
            return in < LONGEST - 2L * padding[i] && (long) dilation[i] * (kernel[i] - 1) < LONGEST;
        }

        @Override
        public boolean equals(@Nullable Object o) {
            return o instanceof Window w && ceil == w.ceil && Arrays.equals(kernel, w.kernel)
                    && Arrays.equals(stride, w.stride) && Arrays.equals(padding, w.padding)
                    && Arrays.equals(dilation, w.dilation);
        }

        @Override
        public int hashCode() {
            return Arrays.deepHashCode(new Object[] {kernel, stride, padding, dilation, ceil});
        }

        @Override
        public String toString() {
            return "kernel " + Arrays.toString(kernel) + ", stride " + Arrays.toString(stride) + ", padding "
                    + Arrays.toString(padding) + ", dilation " + Arrays.toString(dilation) + (ceil ? ", ceil" : "");
        }
    }

    /**
     * Maximum of each window, NaN if one element is NaN. Outputs {@code (y, indices i32)}: the index is that of the
     * first maximum within its plane, row-major over the spatial dimensions of {@code x}.
     *
     * @param window the window's geometry
     */
    record MaxPool(Window window) implements Pooling {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Spec y = in[0].with(output(this, in[0].shape(), in));
            return new Spec[] {y, y.with(DType.I32)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new MaxPoolGradient(window, b.in(0).shape()), b.grad(), b.out(1))};
        }
    }

    /**
     * Operands {@code (g like y, indices i32)}: adds each gradient at the position of its maximum.
     *
     * @param window the window's geometry
     * @param shape of {@code x}
     */
    record MaxPoolGradient(Window window, Shape shape) implements Pooling {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.floating(this, in[0]);
            Check.index(this, in[1], in);
            Shape y = output(this, shape, in);
            if (!y.equals(in[0].shape()) || !y.equals(in[1].shape())) {
                throw Check.shape(this, "operands must be " + y, "pass the outputs of maxPool", in);
            }
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Shape y = b.in(1).shape();
            Shape planes = shape.slice(0, 2);
            Tensor h = b.grad().reshape(planes.concat(Shape.of(shape.slice(2, shape.rank()).count())));
            Tensor places = b.in(1).reshape(planes.concat(Shape.of(y.slice(2, y.rank()).count())));
            return new Tensor[] {Tensor.compute(new Selection.Gather(2), h, places).reshape(y), null};
        }
    }

    /**
     * Mean of each window; floating only; no dilation.
     *
     * @param window the window's geometry
     * @param countPadding whether zeros of the padding count in the mean
     */
    record AvgPool(Window window, boolean countPadding) implements Pooling {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.floating(this, in);
            return new Spec[] {in[0].with(output(this, in[0].shape(), in))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new AvgPoolGradient(window, countPadding, b.in(0).shape()), b.grad())};
        }
    }

    /**
     * Operand {@code g like y}: distributes each gradient evenly over its window.
     *
     * @param window the window's geometry
     * @param countPadding as in {@link AvgPool}
     * @param shape of {@code x}
     */
    record AvgPoolGradient(Window window, boolean countPadding, Shape shape) implements Pooling {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.floating(this, in);
            Shape y = output(this, shape, in);
            if (!y.equals(in[0].shape())) {
                throw Check.shape(this, "the gradient must be " + y, "give the shape of the pooled x", in);
            }
            return new Spec[] {in[0].with(shape)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(new AvgPool(window, countPadding), b.grad())};
        }
    }

    private static Shape output(Pooling op, Shape x, Spec[] in) {
        Window w = op.window();
        int rank = w.rank();
        Check.argument(rank >= 1 && rank <= 3 && w.stride().length == rank && w.padding().length == rank
                && w.dilation().length == rank, op, "needs a kernel, stride, padding and dilation for each of 1 to 3 "
                + "spatial dimensions", "give one value of each per spatial dimension", in);
        if (x.rank() != rank + 2) {
            throw Check.shape(op, "needs [N, C, *spatial] of rank " + (rank + 2), "reshape it", in);
        }
        long[] y = x.dims();
        long elements = 1;
        for (int i = 0; i < rank; i++) {
            int axis = i + 2;
            if (w.kernel()[i] <= 0 || w.stride()[i] <= 0 || w.dilation()[i] <= 0 || w.padding()[i] < 0
                    || w.padding()[i] > w.kernel()[i] / 2) {
                throw Check.argument(op,
                        "kernel, stride and dilation must be > 0 and padding at most half of the kernel, got " + w,
                        "change the window", in);
            }
            if (w.kernel()[i] != 1 && w.dilation()[i] > x.dim(axis)) {
                throw Check.shape(op, "the dilation must not be larger than the input in dimension " + axis,
                        "use a smaller dilation", in);
            }
            elements = Math.min(Window.MAX_ELEMENTS, elements * w.kernel()[i]);
            if (elements >= Window.MAX_ELEMENTS || !w.fits(i, x.dim(axis))) {
                throw Check.argument(op,
                        "the window must have fewer than 2^28 elements, and it and the padded input must be shorter "
                        + "than 2^30 in dimension " + axis + ", got " + w, "use a smaller kernel, padding or dilation",
                        in);
            }
            y[axis] = w.out(i, x.dim(axis));
            if (y[axis] <= 0) {
                throw Check.shape(op, "the window must fit into the padded input in dimension " + axis,
                        "use a smaller kernel or more padding", in);
            }
        }
        Check.shape(isIndexed(x.dims()) && isIndexed(y), op, "a channel of an image must have fewer than 2^31 pixels",
                "divide the images", in);
        return Shape.of(y);
    }

    /** Returns whether i32 can number the pixels of a channel. */
    private static boolean isIndexed(long[] dims) {
        long pixels = 1;
        for (int i = 2; i < dims.length; i++) {
            pixels = Math.min(1L << 31, pixels * dims[i]);
        }
        return pixels < 1L << 31;
    }
}
