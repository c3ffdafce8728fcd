package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.spi.Chain;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * {@link Elementwise} operations: one source, specialised by the expression and the types. A result has the memory
 * layout of the first operand of its shape, if that operand is dense.
 */
public final class ElementwiseKernels {
    /** The size of a thread's reads from the widest operand. */
    private static final int VECTOR_BYTES = 16;
    /** How many vectors, or elements, of each operand a thread reads before it computes; one if they are long. */
    private static final int UNROLL = 2;
    private static final int LONG_VECTOR = 16;

    private final Launcher launcher;

    /**
     * A kernel, by what it is specialised for.
     *
     * @param expression as from {@link ElementwiseExpressions}
     * @param a type of the first operand
     * @param b type of the second operand, or {@code null}
     * @param c type of the third operand, or {@code null}
     * @param result type of the result
     * @param parameters number of parameters
     * @param width elements of a vector
     * @param flat whether all operands have one order without gaps
     */
    private record ElementwiseKernel(String expression, DType a, @Nullable DType b, @Nullable DType c, DType result,
            int parameters, int width, boolean flat) implements Kernel {
        @Override
        public KernelSource source() {
            DType last = c != null ? c : b != null ? b : a;
            int operands = c != null ? 3 : b != null ? 2 : 1;
            return KernelSource.of("elementwise", "elementwise", "OPERANDS", operands, "TY", Types.of(result),
                    "TA", Types.of(a), "TB", Types.of(b != null ? b : a), "TC", Types.of(last),
                    "C", Types.wide(last), "LAYOUT", flat ? "Flat" : "Layout<1 + " + operands + ">",
                    "WIDTH", width, "TURNS", unroll(), "PARAMETERS", parameters, "EXPRESSION", "(" + expression + ")");
        }

        int unroll() {
            return width < LONG_VECTOR ? UNROLL : 1;
        }
    }

    /** Makes the family's kernels for a device. */
    ElementwiseKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns the results. */
    public Tensor[] run(Elementwise op, Tensor[] inputs, Spec output) {
        Tensor y = Storage.allocate(output, strides(inputs, output.shape()));
        if (y.count() > 0) {
            Tensor last = inputs[inputs.length - 1];
            apply(ElementwiseExpressions.of(op.formula(), last.dtype()), op.parameters(), y, inputs);
        }
        return new Tensor[] {y};
    }

    /** Returns a chain as one kernel, or {@code null} if it has none. */
    public Chain.@Nullable Kernel fuse(Chain chain) {
        ElementwiseExpressions.Fused fused = ElementwiseExpressions.of(chain);
        Spec result = chain.result();
        return fused == null ? null : operands -> {
            Tensor y = Storage.allocate(result, strides(operands, result.shape()));
            if (y.count() > 0) {
                apply(fused.expression(), fused.parameters(), y, operands);
            }
            return y;
        };
    }

    /** Sets {@code y} to an expression of one to three operands that broadcast to its shape. */
    void apply(String expression, double[] parameters, Tensor y, Tensor... inputs) {
        Tensor[] operands = new Tensor[inputs.length + 1];
        operands[0] = y;
        System.arraycopy(inputs, 0, operands, 1, inputs.length);
        Layout.of(y.shape(), operands).inPieces(Layout.MAX_COUNT,
                (layout, offsets) -> launch(expression, parameters, operands, layout, offsets));
    }

    private void launch(String expression, double[] parameters, Tensor[] operands, Layout layout, long[] offsets) {
        int widest = 1;
        for (Tensor x : operands) {
            widest = Math.max(widest, x.dtype().bytes());
        }
        int vector = VECTOR_BYTES / widest;
        int width = layout.allowsVectors(vector, operands, offsets) ? vector : 1;
        boolean flat = width > 1 && isFlat(layout, operands.length);
        DType a = operands[1].dtype();
        DType b = operands.length > 2 ? operands[2].dtype() : null;
        DType c = operands.length > 3 ? operands[3].dtype() : null;
        ElementwiseKernel kernel = new ElementwiseKernel(expression, a, b, c, operands[0].dtype(),
                Math.max(1, parameters.length), width, flat);
        Launch launch = launcher.launch(kernel);
        for (int k = 0; k < 4; k++) {
            launch.i64(k < operands.length ? address(operands[k], offsets[k]) : 0);
        }
        launch.parameters(operands[operands.length - 1].dtype(), parameters);
        if (flat) {
            launch.i32((int) layout.count());
        } else {
            launch.layout(layout, operands.length);
        }
        launch.threads(Math.ceilDiv(layout.count(), (long) width * kernel.unroll()));
    }

    private static boolean isFlat(Layout layout, int operands) {
        boolean flat = true;
        for (int k = 0; k < operands; k++) {
            flat &= layout.isDense(k);
        }
        return flat;
    }

    private static long address(Tensor x, long offset) {
        return x.address() + offset * x.dtype().bytes();
    }

    /** Returns a result's strides: those of the first operand of its shape if it is dense, else row-major. */
    static long[] strides(Tensor[] operands, Shape shape) {
        for (Tensor x : operands) {
            if (x.shape().equals(shape)) {
                return !x.isContiguous() && isDense(x) ? x.sharedStrides() : shape.sharedStrides();
            }
        }
        return shape.sharedStrides();
    }

    /** Returns whether the elements fill their memory, each at an address of its own. */
    private static boolean isDense(Tensor x) {
        long[] strides = x.sharedStrides();
        Integer[] order = new Integer[strides.length];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (i, j) -> Long.compare(strides[i], strides[j]));
        long expected = 1;
        for (int d : order) {
            if (x.size(d) > 1) {
                if (strides[d] != expected) {
                    return false;
                }
                expected *= x.size(d);
            }
        }
        return true;
    }
}
