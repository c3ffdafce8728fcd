package dev.starling.nn.loss;

import dev.starling.tensor.Losses;
import dev.starling.tensor.Losses.Reduce;
import dev.starling.tensor.Tensor;
import java.util.OptionalInt;

/** The difference between a model's result and its target. See {@link Losses} for formulas and papers. */
@FunctionalInterface
public interface Loss {
    /** Returns a scalar: the mean over the batch. */
    Tensor of(Tensor result, Tensor target);

    /** Returns whether the loss itself computes in f32 from a 16-bit result, which then need not be converted first. */
    default boolean widens() {
        return false;
    }

    /**
     * Returns whether the loss itself computes the softmax or sigmoid of a result, so that a model must not end in one.
     */
    default boolean expectsLogits() {
        return false;
    }

    /**
     * Returns the dimension of the classes, which the logits have and the targets have not: dimension 1 for logits
     * {@code [N, C, *d]} and targets {@code [N, *d]}, the last one for logits {@code [N, *d, C]}.
     *
     * @throws dev.starling.tensor.TensorException if the targets are no integers, if no dimension fits, or if both fit
     */
    static int classAxis(Tensor logits, Tensor target) {
        return ClassAxis.of("classes", logits, target);
    }

    /**
     * Returns the loss of {@code softmax(logits)} and classes or probabilities. Class indices are integers; see
     * {@link #classAxis} for the shapes. Probabilities have the shape of the logits, {@code [N, C, *d]}.
     */
    static CrossEntropyLoss crossEntropy() {
        return crossEntropy(0);
    }

    /** As {@link #crossEntropy()}, with a share of the target distributed evenly over all classes. */
    static CrossEntropyLoss crossEntropy(double smoothing) {
        return crossEntropy(smoothing, Losses.NONE_IGNORED);
    }

    /** As {@link #crossEntropy(double)}, ignoring targets of one class, for example -100. */
    static CrossEntropyLoss crossEntropy(double smoothing, long ignored) {
        return new CrossEntropyLoss(smoothing, ignored, OptionalInt.empty());
    }

    /**
     * As {@link #crossEntropy()}, with the classes in the last dimension: logits {@code [*d, C]}, classes {@code [*d]}.
     */
    static CrossEntropyLoss crossEntropyOfLast() {
        return crossEntropy().classesIn(-1);
    }

    /** Returns the mean cross-entropy of {@code sigmoid(logits)} and probabilities of the same shape. */
    static BinaryCrossEntropyLoss binaryCrossEntropy() {
        return new BinaryCrossEntropyLoss();
    }

    /** Returns the mean squared error of results and targets of one shape. */
    static Loss meanSquared() {
        return (x, target) -> Losses.mseLoss(x, target, Reduce.MEAN);
    }

    /** Returns the mean absolute error of results and targets of one shape. Its slope at 0 is 0. */
    static Loss meanAbsolute() {
        return (x, target) -> Losses.l1Loss(x, target, Reduce.MEAN);
    }

    /**
     * Returns the mean Huber loss of results and targets of one shape: {@code d²/2} for differences
     * {@code |d| <= delta}, {@code delta·(|d| - delta/2)} beyond.
     */
    static Loss huber(double delta) {
        return (x, target) -> Losses.huberLoss(x, target, Reduce.MEAN, delta);
    }
}
