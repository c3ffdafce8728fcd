package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;

/**
 * The mean of {@link Losses#crossEntropy}.
 *
 * @param smoothing share of the target that is spread evenly over all classes
 * @param ignored a class that marks targets to leave out
 * @param last whether the classes are the last dimension, not the second
 */
record CrossEntropyLoss(double smoothing, long ignored, boolean last) implements Loss {
    @Override
    public Tensor of(Tensor logits, Tensor target) {
        // Probabilities are no classes: their loss computes in the type of the logits.
        Tensor x = target.dtype().isFloating() && logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        return last ? Losses.crossEntropy(x.reshape(-1, x.size(-1)), target.reshape(-1), Losses.Reduce.MEAN, smoothing,
                ignored) : Losses.crossEntropy(x, target, Losses.Reduce.MEAN, smoothing, ignored);
    }

    @Override
    public boolean widens() {
        return true;
    }
}
