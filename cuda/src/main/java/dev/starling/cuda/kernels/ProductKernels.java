package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;

/** Matrix products by a kernel of Starling, for all types and strides, with a bias and ReLU. */
public final class ProductKernels implements Products {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    private static final int MAX_ROWS_OF_BLOCKS = 65535;
    private static final Answer OTHER_EPILOGUE = new Answer.Declined("another kernel computes this epilogue");

    private final Launcher launcher;

    record ProductKernel(String function, DType type, boolean relu) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("contraction", function, "T", Types.of(type), "C", Types.wide(type), "RELU", relu);
        }
    }

    /** Makes the kernels of a device. */
    public ProductKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Answer multiply(Multiplication m) {
        boolean relu = m.after() == ProductEpilogue.RELU;
        if (!relu && m.after() != ProductEpilogue.NOTHING) {
            return OTHER_EPILOGUE;
        }
        Tensor bias = m.bias();
        Product p = m.product(m.a(), m.b());
        if (p.batches() > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        Layout batches = Layout.rowMajor(p.batch(), p.aBatch(), p.bBatch());
        long tiles = Math.ceilDiv(p.m(), (long) TILE) * Math.ceilDiv(p.n(), (long) TILE);
        launcher.launch(new ProductKernel("product", m.y().dtype(), relu)).tensor(m.y()).tensor(m.a()).tensor(m.b())
                .tensor(bias).i64(p.m()).i64(p.n()).i64(p.k()).i64(p.aRow()).i64(p.aColumn()).i64(p.bRow())
                .i64(p.bColumn()).i64(bias == null ? 0 : bias.stride(0)).layout(batches, 2)
                .grid(Math.toIntExact(tiles), (int) Math.min(p.batches(), MAX_ROWS_OF_BLOCKS), 1, TILE_THREADS);
        return Answer.HANDLED;
    }
}
