package dev.starling.nn.loss;

import dev.starling.tensor.Losses;
import dev.starling.tensor.Losses.Reduce;
import dev.starling.tensor.Tensor;

/** How far a model's result is from what it should have been. See {@link Losses} for formulas and papers. */
@FunctionalInterface
public interface Loss {
    /** Returns a scalar: the mean over the batch. */
    Tensor of(Tensor result, Tensor target);

    /** Tells whether the loss computes in f32 with a result of 16 bits, which then need not be converted first. */
    default boolean widens() {
        return false;
    }

    /** Between {@code softmax(logits [N, C, *d])} and classes {@code [N, *d]} or probabilities {@code [N, C, *d]}. */
    static Loss crossEntropy() {
        return crossEntropy(0);
    }

    /** As {@link #crossEntropy()}, with a share of the target spread evenly over all classes. */
    static Loss crossEntropy(double smoothing) {
        return crossEntropy(smoothing, Losses.NONE_IGNORED);
    }

    /** As {@link #crossEntropy(double)}, leaving out targets of one class, for example -100. */
    static Loss crossEntropy(double smoothing, long ignored) {
        return new CrossEntropyLoss(smoothing, ignored, false);
    }

    /**
     * As {@link #crossEntropy()} with the classes in the last dimension: logits {@code [*d, C]}, classes {@code
     * [*d]}.
     */
    static Loss crossEntropyOfLast() {
        return new CrossEntropyLoss(0, Losses.NONE_IGNORED, true);
    }

    /** Between {@code sigmoid(logits)} and probabilities of the same shape. */
    static Loss binaryCrossEntropy() {
        return (logits, target) -> Losses.binaryCrossEntropyWithLogits(logits, target, Reduce.MEAN);
    }

    /** Mean squared error. */
    static Loss meanSquared() {
        return (x, target) -> Losses.mseLoss(x, target, Reduce.MEAN);
    }

    /** Mean absolute error. */
    static Loss meanAbsolute() {
        return (x, target) -> Losses.l1Loss(x, target, Reduce.MEAN);
    }

    /** Squared where near, linear beyond {@code delta}. */
    static Loss huber(double delta) {
        return (x, target) -> Losses.huberLoss(x, target, Reduce.MEAN, delta);
    }
}
