package dev.starling.autograd;

import dev.starling.tensor.Tensor;

/** Receives the gradients of watched tensors while the backward pass still runs. */
@FunctionalInterface
public interface GradientSink {
    /**
     * Takes a final gradient. Called once for each watched tensor that the result depends on, right after its last
     * contribution, in an order that depends on the recorded operations alone.
     *
     * @param watched the tensor given to {@link Tape#watch}
     * @param gradient of its shape; the memory is given back after the call, so copy, apply or {@link Tensor#hold} it
     */
    void accept(Tensor watched, Tensor gradient);
}
