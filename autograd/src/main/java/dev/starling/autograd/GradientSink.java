package dev.starling.autograd;

import dev.starling.tensor.Tensor;

/**
 * Receives the gradients of watched tensors while the backward pass is still running.
 *
 * <p>Gradients may share memory with each other, with the cotangent and with those that the pass still needs: the
 * gradients of {@code a} and {@code b} in {@code a.add(b)} are one tensor. A change of one of them in place changes the
 * others too; change a {@code copy()} instead.
 */
@FunctionalInterface
public interface GradientSink {
    /**
     * Receives a final gradient. The tape calls this once for each watched tensor that the result depends on, right
     * after the last contribution to its gradient. The order of the calls depends only on the recorded operations.
     *
     * @param watched the tensor given to {@link Tape#watch}
     * @param gradient has the shape of {@code watched}. If the backward pass allocated its memory, that memory is freed
     *     after the call unless another gradient shares it: copy the gradient, apply it or
     *     {@linkplain dev.starling.tensor.Storage#hold hold} its storage. Memory that a {@linkplain Tape#hook hook}
     *     allocated, and that of a recorded pass, is freed when its scope closes
     */
    void accept(Tensor watched, Tensor gradient);
}
