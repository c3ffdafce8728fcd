package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution.Conv;
import dev.starling.tensor.op.Convolution.ConvWeightGradient;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;

/**
 * Runs the example of one {@link OneDnnFault} by oneDNN directly, in a process of its own. Prints {@code PRESENT} or
 * {@code GONE} and the first difference; a process that prints neither was ended by the fault.
 */
final class ConvFaultProbe {
    private static final int TIMES = 32;
    private static final int NEAR = 16;

    private ConvFaultProbe() {
    }

    public static void main(String[] arguments) {
        OneDnnFault fault = OneDnnFault.valueOf(arguments[0]);
        String wrong = fault == OneDnnFault.STICKY_ERROR ? stickyError() : difference(fault);
        System.out.println(wrong == null ? "GONE" : "PRESENT " + wrong);
        System.exit(0);
    }

    /**
     * A convolution that shows the fault: image, weight, and stride, padding and dilation of each dimension.
     *
     * @param x shape of the images
     * @param weight shape of the weight
     * @param geometry the kernel's geometry
     * @param bias whether the forward pass adds a bias
     */
    record Example(Shape x, Shape weight, Geometry geometry, boolean bias) {
        ConvolutionShape shape() {
            int n = geometry.rank();
            long[][] sizes = new long[6][n];
            for (int i = 0; i < n; i++) {
                sizes[0][i] = x.dim(i + 2);
                sizes[1][i] = geometry.out(i, x.dim(i + 2), weight.dim(i + 2));
                sizes[2][i] = weight.dim(i + 2);
                sizes[3][i] = geometry.stride()[i];
                sizes[4][i] = geometry.dilation()[i];
                sizes[5][i] = geometry.padding()[i];
            }
            return new ConvolutionShape(x.dim(0), x.dim(1), weight.dim(0), geometry.groups(), sizes[0], sizes[1],
                sizes[2], sizes[3], sizes[4], sizes[5], sizes[5]);
        }
    }

    static Example example(OneDnnFault fault) {
        int max = Integer.MAX_VALUE;
        return switch (fault) {
            case GARBAGE_FOR_UNSEEN_TAPS -> new Example(Shape.of(8, 16, 1, 1), Shape.of(32, 16, 3, 3),
                Geometry.of(2, 2, 1, 1, 1), false);
            case WRONG_ON_SHALLOW_IMAGES -> new Example(Shape.of(1, 1, 2, 2, 2), Shape.of(1, 1, 3, 3, 3),
                Geometry.of(3, 1, 1, 1, 1), false);
            case ZERO_ON_DEEP_PADDING -> new Example(Shape.of(1, 4, 2, 4, 4), Shape.of(2, 4, 4, 1, 1),
                new Geometry(new int[] {2, 1, 1}, new int[] {3, 0, 0}, new int[] {1, 1, 1}, 1), false);
            case WRONG_ROWS_OF_ONE_COLUMN -> new Example(Shape.of(1, 1, 4, 3), Shape.of(1, 1, 2, 3),
                new Geometry(new int[] {1, 2}, new int[] {0, 0}, new int[] {1, 1}, 1), false);
            case UNWRITTEN_PLACES_OF_FLAT_IMAGES -> new Example(Shape.of(1, 1, 1, 1, 2), Shape.of(1, 1, 2, 1, 2),
                new Geometry(new int[] {1, 1, 1}, new int[] {1, 0, 0}, new int[] {1, 1, 1}, 1), false);
            case WRONG_WHERE_STRIDES_SKIP_ROWS -> new Example(Shape.of(1, 32, 67, 6), Shape.of(48, 32, 1, 2),
                new Geometry(new int[] {3, 1}, new int[] {0, 0}, new int[] {1, 1}, 1), false);
            case CRASH_WHERE_NO_TAP_MEETS -> new Example(Shape.of(1, 3, 1), Shape.of(1, 3, 1),
                Geometry.of(1, 2, 1, 3, 1), true);
            case CRASH_ON_HUGE_STEPS -> new Example(Shape.of(1, 2, 5, 5), Shape.of(3, 2, 3, 3),
                Geometry.of(2, max, max, 1, 1), false);
            case OVERRUN_ON_STRIDED_POINTS -> new Example(Shape.of(4, 4, 256, 256), Shape.of(8, 4, 1, 1),
                Geometry.of(2, 2, 0, 1, 1), false);
            case STICKY_ERROR -> new Example(Shape.of(1, 2, 5, 5), Shape.of(3, 2, 3, 3),
                Geometry.of(2, 1 << 30, 1 << 30, 1, 1), false);
        };
    }

    /** Returns the first element that differs from the reference device's, or {@code null}. */
    private static String difference(OneDnnFault fault) {
        Example example = example(fault);
        DType dtype = fault.types().contains(ElementType.F32) ? DType.F32 : DType.BF16;
        ElementType type = dtype == DType.F32 ? ElementType.F32 : ElementType.BF16;
        ConvolutionShape shape = example.shape();
        long[] outDims = shape.destinationDims(shape.batch());
        Tensor x = operand(example.x(), dtype);
        Tensor w = operand(example.weight(), dtype);
        Tensor y = operand(Shape.of(outDims), dtype);
        Tensor b = operand(Shape.of(shape.outChannels()), dtype);
        Tensor expected = fault.pass() == Pass.FORWARD ? reference(example, x, w, b)
            : fault == OneDnnFault.OVERRUN_ON_STRIDED_POINTS
            ? Tensor.compute(new ConvWeightGradient(example.geometry(), w.shape(), false), x, y)
            : Tensor.compute(new ConvWeightGradient(example.geometry(), w.shape(), false), onReference(x),
                onReference(y));
        for (int i = 0; i < TIMES; i++) {
            Tensor result = operand(fault.pass() == Pass.FORWARD ? y.shape() : w.shape(), dtype);
            Convolution convolution = new Convolution(type, shape, x.strides(), w.strides(), y.strides());
            ConvScratch.poison();
            if (fault.pass() == Pass.FORWARD) {
                convolution.forward(x.address(), w.address(), example.bias() ? b.address() : 0, result.address());
            } else {
                convolution.backwardWeights(x.address(), y.address(), result.address(), 0);
            }
            double[] e = expected.toDoubles();
            double[] a = result.toDoubles();
            for (int k = 0; k < e.length; k++) {
                if (!(Math.abs(a[k] - e[k]) <= 0.02 * Math.abs(e[k]) + 1e-4)) {
                    return "[" + k + "] is " + a[k] + " instead of " + e[k];
                }
            }
        }
        return null;
    }

    /** Steps beyond the image's size are equivalent whatever their size; the reference refuses those of 31 bits. */
    static Tensor reference(Example example, Tensor x, Tensor w, Tensor b) {
        boolean huge = example.geometry().stride()[0] > NEAR;
        Conv conv = new Conv(huge ? Geometry.of(2, NEAR, NEAR, 1, 1) : example.geometry(), Epilogue.NONE);
        return example.bias() ? Tensor.compute(conv, onReference(x), onReference(w), onReference(b))
            : Tensor.compute(conv, onReference(x), onReference(w));
    }

    static Tensor onReference(Tensor x) {
        return x.to(Device.reference());
    }

    static Tensor operand(Shape shape, DType dtype) {
        float[] values = new float[(int) shape.count()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (i * 5 + 1) % 7 - 3;
        }
        return Tensor.of(values, shape.dims()).to(dtype);
    }

    /** Makes a primitive fail, then creates a correct one: on the same thread, and the way callers do. */
    private static String stickyError() {
        try {
            run(example(OneDnnFault.STICKY_ERROR).shape());
            return null;
        } catch (OneDnnException e) {
            long from = Dnnl.strided(ElementType.F32, new long[] {7, 9}, new long[] {9, 1});
            long to = Dnnl.strided(ElementType.F32, new long[] {7, 9}, new long[] {1, 7});
            long attributes = Dnnl.attributes(false);
            Dnnl.destroy(Dnnl.Kind.PRIMITIVE, Dnnl.primitive(Dnnl.reorder(from, to, attributes)));
            long other = Dnnl.strided(ElementType.F32, new long[] {7, 11}, new long[] {11, 1});
            long otherTo = Dnnl.strided(ElementType.F32, new long[] {7, 11}, new long[] {1, 7});
            try {
                Dnnl.newPrimitive(Dnnl.reorder(other, otherTo, attributes));
                return null;
            } catch (OneDnnException sticky) {
                return sticky.getMessage();
            }
        }
    }

    private static void run(ConvolutionShape shape) {
        Tensor x = operand(Shape.of(shape.sourceDims(shape.batch())), DType.F32);
        Tensor w = operand(Shape.of(shape.weightDims()), DType.F32);
        Tensor y = operand(Shape.of(shape.destinationDims(shape.batch())), DType.F32);
        new Convolution(ElementType.F32, shape, x.strides(), w.strides(), y.strides()).forward(x.address(),
            w.address(), 0, y.address());
    }
}
