package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;

/** Matrices of bits, as cuBLASLt reads them. */
public final class SignBits {
    private static final int WARP = 32;

    private SignBits() { }

    /**
     * Returns whether elements of a matrix are above 0, one bit each.
     *
     * @param rowBits bits from row to row, a multiple of 32
     */
    public static Tensor of(Launcher launcher, Tensor x, long rowBits) {
        long words = rowBits / Integer.SIZE;
        Tensor bits = Storage.allocate(new Spec(DType.I32, Shape.of(x.size(0), words), x.device()));
        launcher.launch(new ProductKernels.ProductKernel("positive", x.dtype(), false)).tensor(bits).tensor(x)
                .i64(x.size(0)).i64(x.size(1)).i64(x.stride(0)).i64(x.stride(1)).i64(words)
                .threads(x.size(0) * Math.ceilDiv(words, WARP) * WARP);
        return bits;
    }
}
