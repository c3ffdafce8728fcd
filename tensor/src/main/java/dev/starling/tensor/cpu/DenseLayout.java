package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/** Memory layouts that fill a piece of memory without gaps, in whatever order of dimensions. */
final class DenseLayout {
    private DenseLayout() { }

    /** The strides that a result takes over from the first operand of its shape, or row-major ones. */
    static long[] of(Tensor[] operands, Shape shape) {
        for (Tensor operand : operands) {
            if (operand.strides() == shape.contiguousStrides()) {
                return operand.strides();
            }
            if (operand.shape().equals(shape)) {
                return !operand.isContiguous() && isDense(operand) ? operand.strides() : shape.contiguousStrides();
            }
        }
        return shape.contiguousStrides();
    }

    /** Whether the operand's elements lie in the same order as those of {@code y}, which is dense. */
    static boolean isSame(Tensor operand, Tensor y) {
        return operand.strides() == y.strides() || operand.shape().equals(y.shape())
                && (Arrays.equals(operand.strides(), y.strides()) || operand.isContiguous() && y.isContiguous());
    }

    /** Whether the elements fill their memory, each in a place of its own. */
    static boolean isDense(Tensor x) {
        long[] strides = x.strides();
        long expected = 1;
        while (expected < x.count()) {
            int next = -1;
            for (int d = 0; d < strides.length; d++) {
                if (strides[d] == expected && x.size(d) > 1) {
                    next = d;
                }
            }
            if (next < 0) {
                return false;
            }
            expected *= x.size(next);
        }
        return expected == x.count();
    }
}
