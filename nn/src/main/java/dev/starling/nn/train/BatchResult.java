package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * What the forward pass of a batch results in.
 *
 * @param loss the loss, which has not been read yet
 * @param result the model's result
 * @param target the target, on the model's device
 * @param rows number of rows; without rows there are no tensors
 */
record BatchResult(@Nullable Tensor loss, @Nullable Tensor result, @Nullable Tensor target, long rows) {
    /** The result of a batch without rows. */
    static final BatchResult EMPTY = new BatchResult(null, null, null, 0);

    boolean isEmpty() {
        return rows == 0;
    }
}
