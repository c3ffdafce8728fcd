package dev.starling.cuda.blas;

import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.Multiplication;
import dev.starling.cuda.kernels.Product;
import dev.starling.cuda.kernels.Products;
import dev.starling.cuda.kernels.SignBits;
import dev.starling.tensor.Tensor;
import java.util.Objects;

/** Products of tensors by {@link CublasLt}. Operands that it cannot read in place are copied. */
public final class CublasProducts implements Products {
    private static final Answer UNSUPPORTED = new Answer.Declined("cuBLASLt lacks this type, or is missing");
    private static final Answer NO_SUMMANDS = new Answer.Declined("cuBLASLt does not multiply without summands");
    private static final Answer NARROW_SIDE = new Answer.Declined("8 must divide the number of rows of a side matrix");

    private final Launcher launcher;
    private final CublasLt library;

    /** Makes products for the stream that the library works on. */
    public CublasProducts(Launcher launcher, CublasLt library) {
        this.launcher = launcher;
        this.library = library;
    }

    @Override
    public Answer multiply(Multiplication m) {
        if (!library.supports(m.y().dtype())) {
            return UNSUPPORTED;
        }
        Product product = m.product(m.a(), m.b());
        boolean numbers = m.after() == ProductEpilogue.GELU_KEPT || m.after() == ProductEpilogue.GELU_GRADIENT;
        if (product.k() == 0 || numbers && !MatrixCall.supportsSide(product)) {
            return product.k() == 0 ? NO_SUMMANDS : NARROW_SIDE;
        }
        Tensor a = fits(product, MatrixCall.supportsA(product)) ? m.a() : launcher.copied(m.a());
        Tensor b = fits(product, MatrixCall.supportsB(product)) ? m.b() : launcher.copied(m.b());
        Tensor bias = m.bias() == null ? null : launcher.aligned(m.bias());
        Tensor side = switch (m.after()) {
            case RELU_GRADIENT -> SignBits.of(launcher, Objects.requireNonNull(m.side()),
                    MatrixCall.sideBits(product.n()));
            case GELU_GRADIENT -> launcher.aligned(Objects.requireNonNull(m.side()));
            case NOTHING, RELU, GELU, GELU_KEPT, COLUMN_SUMS -> m.side();
        };
        return queue(new Multiplication(a, b, m.layer(), bias, m.after(), side, m.y()));
    }

    /** Returns whether an operand can stay where it is: the library has one batch dimension; copies merge several. */
    private static boolean fits(Product product, boolean supported) {
        return supported && product.batch().length <= 1;
    }

    /** Queues one call for each element of the outer batch dimensions. */
    private Answer queue(Multiplication m) {
        Product p = m.product(m.a(), m.b());
        int outer = Math.max(0, p.batch().length - 1);
        if (outer < p.batch().length && p.batch()[outer] > Integer.MAX_VALUE) {
            return Answer.TOO_LARGE;
        }
        long inner = p.m() * p.n() * (outer < p.batch().length ? p.batch()[outer] : 1);
        int bytes = m.y().dtype().bytes();
        for (long i = 0; i < m.y().count() / inner; i++) {
            long left = m.a().address();
            long right = m.b().address();
            long rest = i;
            for (int d = outer - 1; d >= 0; d--) {
                left += rest % p.batch()[d] * p.aBatch()[d] * bytes;
                right += rest % p.batch()[d] * p.bBatch()[d] * bytes;
                rest /= p.batch()[d];
            }
            long result = m.y().address() + i * inner * bytes;
            boolean sums = m.after() == ProductEpilogue.COLUMN_SUMS;
            long side = sums || m.side() == null ? 0 : m.side().address() + i * inner * bytes;
            long bias = sums ? Objects.requireNonNull(m.side()).address() : m.bias() == null ? 0 : m.bias().address();
            MatrixCall call = MatrixCall.of(p, m.y().dtype(), m.bias() != null, m.after(), left, right, result, side);
            Answer answer = library.multiply(call, left, right, bias, side, result);
            if (!answer.isHandled()) {
                return answer;
            }
        }
        return Answer.HANDLED;
    }
}
