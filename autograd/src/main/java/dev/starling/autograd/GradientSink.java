package dev.starling.autograd;

import dev.starling.tensor.Tensor;

/** Receives the gradients of watched tensors while the backward pass is still running. */
@FunctionalInterface
public interface GradientSink {
    /**
     * Receives a final gradient. The tape calls this once for each watched tensor that the result depends on, right
     * after the last contribution to its gradient. The order of the calls depends only on the recorded operations.
     *
     * @param watched the tensor given to {@link Tape#watch}
     * @param gradient has the shape of {@code watched}. Its memory is freed after the call: copy it, apply it or
     *     {@linkplain dev.starling.tensor.Storage#hold hold} its storage
     */
    void accept(Tensor watched, Tensor gradient);
}
