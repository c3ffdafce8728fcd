package dev.starling.cuda.kernels;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;

/**
 * One way to compute a family of operations: by a library, or by Starling's own kernels. Safe for use by several
 * threads.
 *
 * @param <O> the family
 */
public interface Kernels<O extends Op> {
    /** Allocates the results of an operation, in the layout that these kernels write fastest; by default row-major. */
    default Tensor[] allocate(O op, Tensor[] in, Spec[] outputs) {
        Tensor[] out = new Tensor[outputs.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = Storage.allocate(outputs[i]);
        }
        return out;
    }

    /** Queues the computation of an operation, or declines it. The caller frees all tensors that this allocates. */
    Answer compute(O op, Tensor[] in, Tensor[] out);
}
