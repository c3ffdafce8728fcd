package dev.starling.nn.loss;

import dev.starling.tensor.Tensor;

/** A loss with a description by which processes compare their settings. */
record NamedLoss(String describe, Loss loss) implements Loss {
    @Override
    public Tensor of(Tensor result, Tensor target) {
        return loss.of(result, target);
    }

    @Override
    public boolean widens() {
        return loss.widens();
    }

    @Override
    public boolean expectsLogits() {
        return loss.expectsLogits();
    }
}
