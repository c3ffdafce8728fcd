package dev.starling.cuda.kernels;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;

/** Views of operands with other sizes and strides, for kernels. */
final class Relabelled {
    private Relabelled() {
    }

    /**
     * Returns a view of an operand. An operand without elements has no memory to view; kernels do not read it, and get
     * newly allocated memory.
     */
    static Tensor view(Tensor x, Shape shape, long[] strides, long offset) {
        return x.count() > 0 || shape.count() == 0 ? x.storage().view(x.spec().with(shape), strides, offset)
                : Storage.allocate(x.spec().with(shape));
    }
}
