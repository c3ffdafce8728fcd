package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import java.util.Arrays;

/**
 * {@link Normalization} operations. Batch normalisation computes the sums of each channel by a {@link Fold}, in any
 * layout, and from them a table of coefficients, so that the second pass is one multiplication and addition for each
 * element. Layer normalisation keeps rows in registers ({@link Rows}) and needs one pass; the gradients of its weights
 * are a fold of columns.
 */
public final class NormalizationKernels implements Kernels<Normalization> {
    private static final int VECTOR_BYTES = 16;
    private static final double[] NONE = {};

    private final Launcher launcher;

    private record Sums(String problem, DType type, DType weights, boolean relu) implements Fold.Problem {
        @Override
        public KernelSource source(String function, int group, int width) {
            int operands = problem.equals("Moments") ? 1 : relu ? 3 : 2;
            return KernelSource.of("normalization", function, "TX", Types.of(type), "TW", Types.of(weights), "C",
                    Types.wide(type), "RELU", relu, "PROBLEM", problem, "OPERANDS", operands,
                    "GROUP", group, "WIDTH", width);
        }

        @Override
        public int partBytes() {
            return 2 * (problem.equals("Moments") ? DType.F64 : Types.sums(type)).bytes();
        }

        @Override
        public boolean numbered() {
            return problem.equals("LayerSums");
        }
    }

    private record BatchGradientKernel(DType type, boolean relu, int width) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("batchnorm", "batch_gradient", "TX", Types.of(type), "C", Types.wide(type),
                    "RELU", relu, "WIDTH", width);
        }
    }

    private record LayerKernel(String function, DType type, DType weights, Rows rows) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("layernorm", function, rows.macros(type, "TW", Types.of(weights)));
        }
    }

    /** Makes the family's kernels for a device. */
    public NormalizationKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Tensor[] allocate(Normalization op, Tensor[] in, Spec[] outputs) {
        if (!isBatch(op)) {
            return Kernels.super.allocate(op, in, outputs);
        }
        Tensor[] x = {in[op instanceof Normalization.BatchNorm ? 0 : 1]};
        return new Tensor[] {Storage.allocate(outputs[0], ElementwiseKernels.strides(x, outputs[0].shape())),
            Storage.allocate(outputs[1]), Storage.allocate(outputs[2])};
    }

    private static boolean isBatch(Normalization op) {
        return op instanceof Normalization.BatchNorm || op instanceof Normalization.BatchNormGradient;
    }

    @Override
    public Answer compute(Normalization op, Tensor[] in, Tensor[] out) {
        Tensor[] dense = in.clone();
        boolean batch = isBatch(op);
        for (int i = 0; i < in.length; i++) {
            dense[i] = batch && in[i].rank() > 1 ? in[i] : launcher.dense(in[i]);
        }
        return switch (op) {
            case Normalization.BatchNorm o -> batch(o, dense, out);
            case Normalization.BatchNormGradient o -> batchGradient(o.epilogue() == Epilogue.RELU, dense, out);
            case Normalization.LayerNorm o -> layer(o, dense, out);
            case Normalization.LayerNormGradient _ -> layerGradient(dense, out);
        };
    }

    private Answer batch(Normalization.BatchNorm op, Tensor[] in, Tensor[] results) {
        Tensor x = in[0];
        long channels = x.size(1);
        if (x.count() == 0) {
            return Answer.HANDLED;
        }
        boolean relu = op.epilogue() == Epilogue.RELU;
        Tensor table = Storage.allocate(new Spec(Types.sums(x.dtype()), Shape.of(2, channels), x.device()));
        Answer answer = Fold.run(launcher, new Sums("Moments", x.dtype(), in[1].dtype(), false), others(x), results[1],
                l -> l.tensor(x).tensor(in[1]).tensor(in[2]).tensor(results[1]).tensor(results[2]).tensor(table)
                        .i64(x.stride(1)).i64(channels).i64(x.count() / channels).f64(op.epsilon()), x);
        if (answer.isHandled()) {
            String expression = relu ? "a * b + c <= 0 ? C(0) : a * b + c" : "a * b + c";
            launcher.elementwise().apply(expression, NONE, results[0], x, alongChannels(table, 0, x),
                    alongChannels(table, channels, x));
        }
        return answer;
    }

    private Answer batchGradient(boolean relu, Tensor[] in, Tensor[] results) {
        Tensor g = in[0];
        Tensor x = in[1];
        Tensor y = in[3];
        long channels = x.size(1);
        if (x.count() == 0) {
            launcher.fill(results[1], 0);
            launcher.fill(results[2], 0);
            return Answer.HANDLED;
        }
        Tensor table = Storage.allocate(new Spec(Types.sums(x.dtype()), Shape.of(3, channels), x.device()));
        Tensor[] folded = relu ? new Tensor[] {g, x, y} : new Tensor[] {g, x};
        Answer answer = Fold.run(launcher, new Sums("BatchSums", x.dtype(), in[2].dtype(), relu), others(x), results[1],
                l -> l.tensor(g).tensor(x).tensor(y).tensor(in[2]).tensor(in[4]).tensor(in[5]).tensor(results[1])
                        .tensor(results[2]).tensor(table).i64(channels).i64(x.count() / channels), folded);
        if (answer.isHandled()) {
            Tensor coefficients = alongChannels(table, 0, x);
            Tensor[] operands = relu ? new Tensor[] {results[0], g, x, coefficients, y}
                    : new Tensor[] {results[0], g, x, coefficients};
            Layout.of(x.shape(), operands).inPieces(Layout.MAX_COUNT,
                    (layout, offsets) -> batchGradient(relu, operands, layout, offsets));
        }
        return answer;
    }

    private void batchGradient(boolean relu, Tensor[] operands, Layout layout, long[] offsets) {
        DType type = operands[0].dtype();
        int width = VECTOR_BYTES / type.bytes();
        int inner = layout.rank() - 1;
        boolean vectors = layout.allowsVectors(width, operands, offsets) && layout.size(inner) % width == 0
                && layout.stride(1, inner) == 1 && layout.stride(2, inner) == 1
                && (!relu || layout.stride(4, inner) == 1);
        Launch launch = launcher.launch(new BatchGradientKernel(type, relu, vectors ? width : 1));
        for (int k = 0; k < 5; k++) {
            launch.i64(k < operands.length ? operands[k].address() + offsets[k] * operands[k].dtype().bytes() : 0);
        }
        launch.i64(operands[0].size(1)).layout(layout, operands.length)
                .threads(vectors ? layout.count() / width : layout.count());
    }

    private Answer layer(Normalization.LayerNorm op, Tensor[] in, Tensor[] results) {
        long size = in[1].count();
        long rows = results[1].count();
        if (size > Layout.MAX_COUNT || rows > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        if (size == 0) {
            launcher.fill(results[1], 0);
            launcher.fill(results[2], 1 / Math.sqrt(op.epsilon()));
            return Answer.HANDLED;
        }
        Rows shared = Rows.of(size, in[0].dtype(), areAligned(in[0], in[1], in[2]));
        Launch launch = launcher.launch(new LayerKernel("normalize", in[0].dtype(), in[1].dtype(), shared));
        launch.tensor(results[0]).tensor(results[1]).tensor(results[2]).tensor(in[0]).tensor(in[1]).tensor(in[2]);
        shared.launch(launch.f64(op.epsilon()).i32((int) rows).i32((int) size), rows);
        return Answer.HANDLED;
    }

    private Answer layerGradient(Tensor[] in, Tensor[] results) {
        Tensor g = in[0];
        Tensor x = in[1];
        long size = in[2].count();
        long rows = in[3].count();
        if (size > Layout.MAX_COUNT || rows > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        Rows shared = Rows.of(size, x.dtype(), areAligned(g, x, in[2]));
        LayerKernel kernel = new LayerKernel("gradient", x.dtype(), in[2].dtype(), shared);
        Launch launch = launcher.launch(kernel).tensor(results[0]);
        for (Tensor operand : in) {
            launch.tensor(operand);
        }
        shared.launch(launch.i32((int) rows).i32((int) size), rows);
        Shape matrix = Shape.of(rows, size);
        return Fold.run(launcher, new Sums("LayerSums", x.dtype(), in[2].dtype(), false), new Axes(1), results[1],
                l -> l.tensor(g).tensor(x).tensor(in[3]).tensor(in[4]).tensor(results[1]).tensor(results[2]),
                Relabelled.view(g, matrix, matrix.sharedStrides(), g.offset()),
                Relabelled.view(x, matrix, matrix.sharedStrides(), x.offset()));
    }

    /**
     * Returns whether all operands can be read in vectors of as many elements as 16 bytes of the first operand hold.
     */
    private static boolean areAligned(Tensor... operands) {
        int width = VECTOR_BYTES / operands[0].dtype().bytes();
        return Arrays.stream(operands).allMatch(x -> x.address() % (width * x.dtype().bytes()) == 0);
    }

    /** Returns all dimensions except that of the channels. */
    private static Axes others(Tensor x) {
        return new Axes((1 << x.rank()) - 1 & ~2);
    }

    /** Returns a view of a table's row that broadcasts along the channels of {@code x}. */
    private static Tensor alongChannels(Tensor table, long first, Tensor x) {
        long[] dims = new long[x.rank()];
        Arrays.fill(dims, 1);
        dims[1] = x.size(1);
        Shape shape = Shape.of(dims);
        return Relabelled.view(table, shape, shape.sharedStrides(), table.offset() + first);
    }
}
