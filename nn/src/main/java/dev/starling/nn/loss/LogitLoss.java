package dev.starling.nn.loss;

import dev.starling.tensor.Tensor;
import java.util.function.BinaryOperator;

/**
 * A loss of logits.
 *
 * @param name name of the loss
 * @param function the loss
 */
record LogitLoss(String name, BinaryOperator<Tensor> function) implements Loss {
    @Override
    public Tensor of(Tensor result, Tensor target) {
        return function.apply(result, target);
    }

    @Override
    public boolean expectsLogits() {
        return true;
    }

    @Override
    public String toString() {
        return name;
    }
}
