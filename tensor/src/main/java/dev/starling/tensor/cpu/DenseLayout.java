package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/** Memory layouts without gaps, in any order of dimensions. */
final class DenseLayout {
    private DenseLayout() { }

    /**
     * Returns the strides that a result takes from the first operand of its shape, or row-major ones if there is none.
     */
    static long[] of(Tensor[] operands, Shape shape) {
        for (Tensor operand : operands) {
            if (operand.sharedStrides() == shape.sharedStrides()) {
                return operand.sharedStrides();
            }
            if (operand.shape().equals(shape)) {
                return !operand.isContiguous() && isDense(operand) ? operand.sharedStrides() : shape.sharedStrides();
            }
        }
        return shape.sharedStrides();
    }

    /** Returns whether the operand's elements have the same order in memory as those of {@code y}, which is dense. */
    static boolean isSame(Tensor operand, Tensor y) {
        return operand.shape().equals(y.shape())
                && (Arrays.equals(operand.sharedStrides(), y.sharedStrides())
                || operand.isContiguous() && y.isContiguous());
    }

    /** Returns whether the elements fill their memory without gaps or overlaps. */
    static boolean isDense(Tensor x) {
        long[] strides = x.sharedStrides();
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
