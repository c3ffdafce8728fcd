package dev.starling.cuda.kernels;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.MatrixCall;
import dev.starling.cuda.blas.Product;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;

/**
 * Kernels of {@link Contraction} operations: the machine's library of products of matrices where there is one that
 * knows the type, else a kernel of our own, which takes operands of any type and strides.
 */
public final class ContractionKernels {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    private static final int MOST_ROWS_OF_BLOCKS = 65535;
    /** What libraries read a bias by. */
    private static final int VECTOR_BYTES = 16;

    private final Launcher launcher;
    private final Blas library;

    private record ContractionKernel(DType type, boolean relu) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("contraction", "product", "T", Types.of(type), "C", Types.wide(type), "RELU",
                    relu ? "1" : "0");
        }
    }

    /**
     * Makes the family's kernels for a device.
     *
     * @param library what multiplies matrices, or {@code null}
     */
    public ContractionKernels(Launcher launcher, Blas library) {
        this.launcher = launcher;
        this.library = library;
    }

    /** Returns the results. */
    public Tensor[] run(Contraction op, Tensor[] inputs, Spec output) {
        Tensor y = Tensor.allocate(output);
        if (y.count() > 0) {
            switch (op) {
                case Contraction.MatMul _ -> multiply(inputs[0], inputs[1], null, false, false, y);
                case Contraction.Linear(Epilogue epilogue) -> multiply(inputs[0], inputs[1],
                        inputs.length == 3 ? inputs[2] : null, epilogue == Epilogue.RELU, true, y);
            }
        }
        return new Tensor[] {y};
    }

    /** Sets a dense matrix to the product of two others. */
    void multiply(Tensor a, Tensor b, Tensor y) {
        if (y.count() > 0) {
            multiply(a, b, null, false, false, y);
        }
    }

    private void multiply(Tensor a, Tensor b, Tensor bias, boolean relu, boolean layer, Tensor y) {
        Product product = product(a, b, layer, y);
        if (library == null || !library.takes(y.dtype()) || product.k() == 0) {
            launch(product, a, b, bias, relu, y);
            return;
        }
        Tensor left = fits(product, MatrixCall.takesA(product)) ? a : launcher.copied(a);
        Tensor right = fits(product, MatrixCall.takesB(product)) ? b : launcher.copied(b);
        Tensor shift = bias == null || bias.isContiguous() && bias.address() % VECTOR_BYTES == 0 ? bias
                : launcher.copied(bias);
        if (!byLibrary(product(left, right, layer, y), left, right, shift, relu, y)) {
            launch(product, a, b, bias, relu, y);
        }
        close(left, a);
        close(right, b);
        close(shift, bias);
    }

    /** A library has one batch dimension: of more, most can be merged in copies. */
    private static boolean fits(Product product, boolean taken) {
        return taken && product.batch().length <= 1;
    }

    private boolean byLibrary(Product p, Tensor a, Tensor b, Tensor bias, boolean relu, Tensor y) {
        int outer = Math.max(0, p.batch().length - 1);
        long inner = p.m() * p.n() * (outer < p.batch().length ? p.batch()[outer] : 1);
        long calls = y.count() / inner;
        long shift = bias == null ? 0 : bias.address();
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
            MatrixCall call = MatrixCall.of(p, y.dtype(), bias != null, relu, left, right, result);
            if (!library.multiply(call, left, right, shift, result)) {
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
        launcher.launch(new ContractionKernel(y.dtype(), relu)).tensor(y).tensor(a).tensor(b).tensor(bias)
                .i64(p.m()).i64(p.n()).i64(p.k()).i64(p.aRow()).i64(p.aColumn()).i64(p.bRow()).i64(p.bColumn())
                .i64(bias == null ? 0 : bias.strides()[0]).layout(batches, 2)
                .grid(Math.toIntExact(tiles), (int) Math.min(p.batches(), MOST_ROWS_OF_BLOCKS), 1, TILE_THREADS, 0);
    }
}
