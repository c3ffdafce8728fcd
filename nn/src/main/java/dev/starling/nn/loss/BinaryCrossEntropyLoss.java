package dev.starling.nn.loss;

import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;

/** The mean of {@link Losses#binaryCrossEntropyWithLogits}. {@link Loss#binaryCrossEntropy()} creates it. */
public record BinaryCrossEntropyLoss() implements Loss {
    @Override
    public Tensor of(Tensor logits, Tensor target) {
        return Losses.binaryCrossEntropyWithLogits(logits, target, Losses.Reduce.MEAN);
    }

    @Override
    public boolean expectsLogits() {
        return true;
    }
}
