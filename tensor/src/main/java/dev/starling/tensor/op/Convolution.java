package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Cross-correlation over 1, 2 or 3 spatial dimensions, {@code x [N, C, *in]}, {@code weight [O, C/groups, *kernel]},
 * {@code bias [O]}, {@code y [N, O, *out]} with
 * {@code out = ⌊(in + 2·padding - dilation·(kernel - 1) - 1)/stride⌋ + 1}. The three operations are each other's
 * gradients. (Dumoulin and Visin, A guide to convolution arithmetic, 2016)
 */
public sealed interface Convolution extends Op {
    /** Returns stride, padding, dilation and groups. */
    Geometry geometry();

    /**
     * The geometry of a kernel, with one value for each of 1 to 3 spatial dimensions. An operation requires strides,
     * dilations and groups of at least 1 and paddings of at least 0; the padded image and the dilated kernel must be
     * shorter than 2³¹ in each dimension.
     *
     * @param stride distance between neighbouring kernel positions
     * @param padding zeros on each side
     * @param dilation distance between neighbouring kernel elements
     * @param groups number of groups into which channels are divided
     */
    record Geometry(int[] stride, int[] padding, int[] dilation, int groups) {
        /** Copies the arrays. Accessors return no copies, for kernels call them often: do not change these arrays. */
        public Geometry {
            stride = stride.clone();
            padding = padding.clone();
            dilation = dilation.clone();
        }

        /**
         * Makes a geometry of {@code rank} equal spatial dimensions.
         *
         * @throws TensorException if {@code rank} is not 1 to 3
         */
        public static Geometry of(int rank, int stride, int padding, int dilation, int groups) {
            return new Geometry(repeat(rank, stride), repeat(rank, padding), repeat(rank, dilation), groups);
        }

        private static int[] repeat(int rank, int value) {
            return Check.spatial("convolution", rank, value);
        }

        /** Returns the number of spatial dimensions. */
        public int rank() {
            return stride.length;
        }

        /** Returns the size of the output in spatial dimension {@code i}. */
        public long out(int i, long in, long kernel) {
            return Math.floorDiv(in + 2L * padding[i] - (long) dilation[i] * (kernel - 1) - 1, stride[i]) + 1;
        }

        /** Returns whether the padded image and the dilated kernel are shorter than 2³¹ in dimension {@code i}. */
        boolean fits(int i, long in, long kernel) {
            return in <= Integer.MAX_VALUE - 2L * padding[i] && kernel <= Integer.MAX_VALUE
                    && dilation[i] * (kernel - 1) < Integer.MAX_VALUE;
        }

        private void check(Op op, Spec... in) {
            int rank = rank();
            if (rank < 1 || rank > 3 || padding.length != rank || dilation.length != rank) {
                throw Check.argument(op,
                        "needs strides, paddings and dilations for each of 1 to 3 spatial dimensions, got " + this,
                        "give one value of each per spatial dimension", in);
            }
            if (groups <= 0) {
                throw Check.argument(op, "groups must be > 0, got " + groups, "use 1 or more groups", in);
            }
            for (int i = 0; i < rank; i++) {
                if (stride[i] <= 0 || dilation[i] <= 0 || padding[i] < 0) {
                    throw Check.argument(op, "stride and dilation must be > 0 and padding >= 0, got " + this,
                            "change the geometry", in);
                }
            }
        }

        @Override
        public boolean equals(@Nullable Object o) {
            return o instanceof Geometry g && groups == g.groups && Arrays.equals(stride, g.stride)
                    && Arrays.equals(padding, g.padding) && Arrays.equals(dilation, g.dilation);
        }

        @Override
        public int hashCode() {
            return ((Arrays.hashCode(stride) * 31 + Arrays.hashCode(padding)) * 31 + Arrays.hashCode(dilation)) * 31
                    + groups;
        }

        @Override
        public String toString() {
            return "stride " + Arrays.toString(stride) + ", padding " + Arrays.toString(padding) + ", dilation "
                    + Arrays.toString(dilation) + ", groups " + groups;
        }
    }

    /**
     * Operands {@code (x, weight)} and optionally {@code bias} give {@code epilogue(y)}.
     *
     * @param geometry the kernel's geometry
     * @param epilogue applied to the result before it is written
     */
    record Conv(Geometry geometry, Epilogue epilogue) implements Convolution {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 3);
            epilogue.requireNoGelu(this);
            Shape y = output(this, in[0], in[1], in);
            if (in.length != 2 && !in[2].shape().equals(Shape.of(y.dim(1)))) {
                throw Check.shape(this, "the bias must be [" + y.dim(1) + "]", "give one value for each output channel",
                        in);
            }
            return new Spec[] {in[0].with(y)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor g = epilogue.gradient(b, b.out(0));
            boolean bias = b.inputs().length == 3;
            Tensor[] result = new Tensor[b.inputs().length];
            if (b.needs(1) || bias && b.needs(2)) {
                Tensor[] dw = Tensor.apply(new ConvWeightGradient(geometry, b.in(1).shape(), bias), b.in(0), g);
                System.arraycopy(dw, 0, result, 1, dw.length);
            }
            if (b.needs(0)) {
                result[0] = Tensor.compute(new ConvInputGradient(geometry, b.in(0).shape()), g, b.in(1));
            }
            return result;
        }
    }

    /**
     * Operands {@code (g like y, weight)} give the gradient of {@code x}, which is the transposed convolution of
     * {@code g}.
     *
     * @param geometry of the convolution
     * @param shape of {@code x}
     */
    record ConvInputGradient(Geometry geometry, Shape shape) implements Convolution {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Spec x = in[0].with(shape);
            Shape y = output(this, x, in[1], in);
            if (!y.equals(in[0].shape())) {
                throw Check.shape(this, "the gradient must be " + y, "give the shape of the convolved x", in);
            }
            return new Spec[] {x};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {
                b.needs(0) ? Tensor.compute(new Conv(geometry, Epilogue.NONE), b.grad(), b.in(1)) : null,
                b.needs(1) ? Tensor.compute(new ConvWeightGradient(geometry, b.in(1).shape(), false), b.grad(), b.in(0))
                    : null};
        }
    }

    /**
     * Operands {@code (x, g like y)} give the gradient of the weight and, on request, of the bias.
     *
     * @param geometry of the convolution
     * @param shape of the weight
     * @param bias whether to return the second output, {@code g} summed over all dimensions except channels
     */
    record ConvWeightGradient(Geometry geometry, Shape shape, boolean bias) implements Convolution {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Spec w = in[0].with(shape);
            Shape y = output(this, in[0], w, in);
            if (!y.equals(in[1].shape())) {
                throw Check.shape(this, "the gradient must be " + y, "give the shape of the weight", in);
            }
            return bias ? new Spec[] {w, w.with(Shape.of(y.dim(1)))} : new Spec[] {w};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor h = b.grad(0);
            Tensor dg = null;
            if (b.needs(1)) {
                Conv conv = new Conv(geometry, Epilogue.NONE);
                dg = bias ? Tensor.compute(conv, b.in(0), h, b.grad(1)) : Tensor.compute(conv, b.in(0), h);
            }
            return new Tensor[] {
                b.needs(0) ? Tensor.compute(new ConvInputGradient(geometry, b.in(0).shape()), b.in(1), h) : null, dg};
        }
    }

    private static Shape output(Convolution op, Spec x, Spec weight, Spec[] in) {
        Geometry g = op.geometry();
        g.check(op, in);
        Check.floating(op, in);
        Check.sameType(op, in);
        Check.rank(op, x, g.rank() + 2, in);
        Check.rank(op, weight, g.rank() + 2, in);
        long channels = x.shape().dim(1);
        long outputs = weight.shape().dim(0);
        if (outputs % g.groups() != 0) {
            throw Check.argument(op, outputs + " output channels must divide into " + g.groups() + " groups",
                    "change groups", in);
        }
        if (channels % g.groups() != 0 || channels / g.groups() != weight.shape().dim(1)) {
            throw Check.shape(op, "x has " + channels + " channels in " + g.groups() + " groups, but the weight needs "
                    + weight.shape().dim(1) + " per group", x.shape().dim(-1) == weight.shape().dim(1) * g.groups()
                    ? "the channels of x seem to be in its last dimension: movedim(-1, 1) puts them second"
                    : "change the weight, groups or x", in);
        }
        long[] y = new long[g.rank() + 2];
        y[0] = x.shape().dim(0);
        y[1] = outputs;
        for (int i = 0; i < g.rank(); i++) {
            int axis = i + 2;
            long size = x.shape().dim(axis);
            long kernel = weight.shape().dim(axis);
            if (!g.fits(i, size, kernel)) {
                throw Check.argument(op, "the padded input and the dilated kernel must be shorter "
                        + "than 2^31 in dimension " + axis + ", got " + g, "use less padding or dilation", in);
            }
            y[axis] = g.out(i, size, kernel);
            if (kernel <= 0) {
                throw Check.shape(op, "the kernel must not be empty in dimension " + axis, "use a larger kernel", in);
            }
            if (y[axis] <= 0) {
                throw Check.shape(op, "the kernel must fit into the padded input in dimension " + axis,
                        "use a smaller kernel or more padding", in);
            }
        }
        return Shape.of(y);
    }
}
