package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;

/**
 * The mean of {@link Losses#crossEntropy}.
 *
 * @param smoothing share of the target that is distributed evenly over all classes
 * @param ignored class of targets that are ignored
 * @param last whether the classes are in the last dimension instead of the second
 */
record CrossEntropyLoss(double smoothing, long ignored, boolean last) implements Loss {
    @Override
    public Tensor of(Tensor logits, Tensor target) {
        // With probabilities as targets, the operation computes in the type of the logits, so 16 bits are widened here.
        Tensor x = target.dtype().isFloating() && logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        return last ? Losses.crossEntropy(x.reshape(-1, x.size(-1)), target.reshape(-1), Losses.Reduce.MEAN, smoothing,
                ignored) : Losses.crossEntropy(x, target, Losses.Reduce.MEAN, smoothing, ignored);
    }

    @Override
    public boolean widens() {
        return true;
    }
}
