package dev.starling.cuda.kernels;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.MatrixCall;
import dev.starling.cuda.blas.Product;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Reduction;

/**
 * {@link Contraction} operations: by the vendor's library for matrix products if it supports the type, else by a kernel
 * of Starling, which supports all types and strides. If the library cannot fuse something into a product (an
 * activation, a gradient), a kernel after the product computes it.
 */
public final class ContractionKernels {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    private static final int MAX_ROWS_OF_BLOCKS = 65535;
    /** Libraries read a bias in units of this size. */
    private static final int VECTOR_BYTES = 16;

    private static final int WARP = 32;
    private static final Reduction OVER_ROWS = new Reduction.Sum(new Axes(1), false);

    private final Launcher launcher;
    private final ReductionKernels sums;
    private final Blas library;

    private record ContractionKernel(String function, DType type, boolean relu) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("contraction", function, "T", Types.of(type), "C", Types.wide(type), "RELU",
                    relu ? "1" : "0");
        }
    }

    /**
     * Makes the family's kernels for a device.
     *
     * @param sums the kernels for sums
     * @param library the library for matrix products, or {@code null}
     */
    public ContractionKernels(Launcher launcher, ReductionKernels sums, Blas library) {
        this.launcher = launcher;
        this.sums = sums;
        this.library = library;
    }

    /** Returns the results, or {@code null} if there are too many of them to sum. */
    public Tensor[] run(Contraction op, Tensor[] in, Spec[] outputs) {
        Tensor y = Tensor.allocate(outputs[0]);
        return switch (op) {
            case Contraction.MatMul _ -> {
                multiply(in[0], in[1], null, false, false, y);
                yield new Tensor[] {y};
            }
            case Contraction.Linear(Epilogue epilogue, boolean keeps) when epilogue == Epilogue.GELU ->
                gelu(in, y, keeps ? Tensor.allocate(outputs[1]) : null);
            case Contraction.Linear(Epilogue epilogue, boolean _) -> {
                multiply(in[0], in[1], bias(in), epilogue == Epilogue.RELU, true, y);
                yield new Tensor[] {y};
            }
            case Contraction.LinearInputGradient(Epilogue epilogue) -> inputGradient(epilogue, in, y);
            case Contraction.LinearWeightGradient _ -> weightGradient(in[0], in[1], y, outputs[1]);
        };
    }

    private static Tensor bias(Tensor[] in) {
        return in.length == 3 ? in[2] : null;
    }

    /** Computes a layer with GELU. If {@code kept} is not {@code null}, it receives the input of GELU. */
    private Tensor[] gelu(Tensor[] in, Tensor y, Tensor kept) {
        MatrixCall.After after = kept == null ? MatrixCall.After.GELU : MatrixCall.After.GELU_KEPT;
        if (y.count() > 0 && !byLibrary(in[0], in[1], bias(in), true, after, kept, y)) {
            Tensor before = kept == null ? y : kept;
            multiply(in[0], in[1], bias(in), false, true, before);
            apply(Epilogue.GELU.activation(), y, before);
        }
        return kept == null ? new Tensor[] {y} : new Tensor[] {y, kept};
    }

    private Tensor[] inputGradient(Epilogue epilogue, Tensor[] in, Tensor y) {
        if (y.count() > 0 && !inputGradientByLibrary(epilogue, in, y)) {
            multiply(in[0], in[1], null, false, false, y);
            apply(epilogue.gradient(), y, in[2], y);
        }
        return new Tensor[] {y};
    }

    private boolean inputGradientByLibrary(Epilogue epilogue, Tensor[] in, Tensor y) {
        if (library == null || !library.supports(y.dtype())) {
            return false;
        }
        boolean relu = epilogue == Epilogue.RELU;
        Tensor side = relu ? positive(in[2]) : readable(in[2]);
        boolean done = byLibrary(in[0], in[1], null, false,
                relu ? MatrixCall.After.RELU_GRADIENT : MatrixCall.After.GELU_GRADIENT, side, y);
        close(side, in[2]);
        return done;
    }

    /** Returns a matrix of bits, in the form that libraries expect: whether elements are above 0. */
    private Tensor positive(Tensor x) {
        long words = MatrixCall.sideBits(x.size(1)) / Integer.SIZE;
        Tensor bits = Tensor.allocate(new Spec(DType.I32, Shape.of(x.size(0), words), x.device()));
        launcher.launch(new ContractionKernel("positive", x.dtype(), false)).tensor(bits).tensor(x).i64(x.size(0))
                .i64(x.size(1)).i64(x.strides()[0]).i64(x.strides()[1]).i64(words)
                .threads(x.size(0) * Math.ceilDiv(words, WARP) * WARP);
        return bits;
    }

    private Tensor[] weightGradient(Tensor g, Tensor x, Tensor w, Spec bias) {
        Tensor transposed = Relabelled.view(g, Shape.of(g.size(1), g.size(0)),
                new long[] {g.strides()[1], g.strides()[0]}, g.offset());
        Tensor sum = Tensor.allocate(bias);
        if (w.count() > 0 && byLibrary(transposed, x, sum, false, MatrixCall.After.COLUMN_SUMS, null, w)) {
            return new Tensor[] {w, sum};
        }
        sum.close();
        multiply(transposed, x, null, false, false, w);
        Tensor[] total = sums.run(OVER_ROWS, new Tensor[] {g}, bias);
        if (total == null) {
            w.close();
            return null;
        }
        return new Tensor[] {w, total[0]};
    }

    private void apply(Activation op, Tensor y, Tensor... operands) {
        launcher.elementwise().apply(ElementwiseExpressions.of(op.formula(), y.dtype()), op.parameters(), y, operands);
    }

    /** Sets a dense matrix to the product of two matrices. */
    void multiply(Tensor a, Tensor b, Tensor y) {
        multiply(a, b, null, false, false, y);
    }

    private void multiply(Tensor a, Tensor b, Tensor bias, boolean relu, boolean layer, Tensor y) {
        if (y.count() == 0 || relu && byLibrary(a, b, bias, layer, MatrixCall.After.RELU, null, y)) {
            return;
        }
        if (!byLibrary(a, b, bias, layer, MatrixCall.After.NOTHING, null, y)) {
            launch(product(a, b, layer, y), a, b, bias, relu, y);
        } else if (relu) {
            apply(Epilogue.RELU.activation(), y, y);
        }
    }

    /** Multiplies by the library and returns true, or returns false if it does not support the product. */
    private boolean byLibrary(Tensor a, Tensor b, Tensor bias, boolean layer, MatrixCall.After after, Tensor side,
            Tensor y) {
        Product product = product(a, b, layer, y);
        if (library == null || !library.supports(y.dtype()) || product.k() == 0) {
            return false;
        }
        Tensor left = fits(product, MatrixCall.supportsA(product)) ? a : launcher.copied(a);
        Tensor right = fits(product, MatrixCall.supportsB(product)) ? b : launcher.copied(b);
        boolean reads = bias != null && after != MatrixCall.After.COLUMN_SUMS;
        Tensor shift = reads ? readable(bias) : bias;
        boolean done = byLibrary(product(left, right, layer, y), left, right, shift, after, side, y);
        close(left, a);
        close(right, b);
        close(shift, bias);
        return done;
    }

    /** Returns the tensor itself if libraries can read it as a vector or a side matrix, else a copy. */
    private Tensor readable(Tensor x) {
        return x.isContiguous() && x.address() % VECTOR_BYTES == 0 ? x : launcher.copied(x);
    }

    /** Returns whether an operand can stay where it is: libraries have one batch dimension; copies merge several. */
    private static boolean fits(Product product, boolean supported) {
        return supported && product.batch().length <= 1;
    }

    private boolean byLibrary(Product p, Tensor a, Tensor b, Tensor bias, MatrixCall.After after, Tensor side,
            Tensor y) {
        boolean numbers = after == MatrixCall.After.GELU_KEPT || after == MatrixCall.After.GELU_GRADIENT;
        if (numbers && !MatrixCall.supportsSide(p)) {
            return false;
        }
        int outer = Math.max(0, p.batch().length - 1);
        long inner = p.m() * p.n() * (outer < p.batch().length ? p.batch()[outer] : 1);
        long calls = y.count() / inner;
        boolean adds = bias != null && after != MatrixCall.After.COLUMN_SUMS;
        int bytes = y.dtype().bytes();
        for (long i = 0; i < calls; i++) {
            long left = a.address();
            long right = b.address();
            long rest = i;
            for (int d = outer - 1; d >= 0; d--) {
                left += rest % p.batch()[d] * p.aBatch()[d] * bytes;
                right += rest % p.batch()[d] * p.bBatch()[d] * bytes;
                rest /= p.batch()[d];
            }
            long result = y.address() + i * inner * bytes;
            long beside = side == null ? 0 : side.address() + i * inner * bytes;
            MatrixCall call = MatrixCall.of(p, y.dtype(), adds, after, left, right, result, beside);
            if (!library.multiply(call, left, right, bias == null ? 0 : bias.address(), beside, result)) {
                return false;
            }
        }
        return true;
    }

    private static Product product(Tensor a, Tensor b, boolean layer, Tensor y) {
        return layer ? Product.ofLayer(a, b) : Product.of(a, b, y.shape());
    }

    private static void close(Tensor copy, Tensor original) {
        if (copy != original) {
            copy.close();
        }
    }

    private void launch(Product p, Tensor a, Tensor b, Tensor bias, boolean relu, Tensor y) {
        Layout batches = Layout.rowMajor(p.batch(), p.aBatch(), p.bBatch());
        long tiles = Math.ceilDiv(p.m(), (long) TILE) * Math.ceilDiv(p.n(), (long) TILE);
        launcher.launch(new ContractionKernel("product", y.dtype(), relu)).tensor(y).tensor(a).tensor(b).tensor(bias)
                .i64(p.m()).i64(p.n()).i64(p.k()).i64(p.aRow()).i64(p.aColumn()).i64(p.bRow()).i64(p.bColumn())
                .i64(bias == null ? 0 : bias.strides()[0]).layout(batches, 2)
                .grid(Math.toIntExact(tiles), (int) Math.min(p.batches(), MAX_ROWS_OF_BLOCKS), 1, TILE_THREADS);
    }
}
