package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;
import java.util.OptionalInt;

/**
 * The mean of {@link Losses#crossEntropy}. {@link Loss#crossEntropy()} creates it; each setting returns a copy.
 *
 * @param smoothing share of the target that is distributed evenly over all classes
 * @param ignored class of targets that are ignored
 * @param axis dimension of the classes; empty if it follows from the shapes, see {@link Loss#classAxis}
 */
public record CrossEntropyLoss(double smoothing, long ignored, OptionalInt axis) implements Loss {
    /** Returns the loss with a share of the target distributed evenly over all classes. */
    public CrossEntropyLoss smoothing(double share) {
        return new CrossEntropyLoss(share, ignored, axis);
    }

    /** Returns the loss without the targets of one class, for example -100. */
    public CrossEntropyLoss ignoring(long target) {
        return new CrossEntropyLoss(smoothing, target, axis);
    }

    /** Returns the loss with classes in a given dimension; negative counts from the end. */
    public CrossEntropyLoss classesIn(int dimension) {
        return new CrossEntropyLoss(smoothing, ignored, OptionalInt.of(dimension));
    }

    @Override
    public Tensor of(Tensor logits, Tensor target) {
        boolean shares = target.dtype().isFloating() && target.shape().equals(logits.shape());
        // With probabilities as targets, the operation computes in the type of the logits, so 16 bits are widened here.
        Tensor x = shares && logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        int classes = axis.isPresent() ? logits.shape().axis(axis.getAsInt())
                : shares ? 1 : Loss.classAxis(logits, target);
        if (classes == 1) {
            return Losses.crossEntropy(x, target, Losses.Reduce.MEAN, smoothing, ignored);
        }
        return Losses.crossEntropy(rows(x, classes), shares ? rows(target, classes) : target.reshape(-1),
                Losses.Reduce.MEAN, smoothing, ignored);
    }

    /** Returns the elements as {@code [N, C]}. */
    private static Tensor rows(Tensor x, int classes) {
        return x.movedim(classes, -1).reshape(-1, x.size(classes));
    }

    @Override
    public boolean expectsLogits() {
        return true;
    }

    @Override
    public boolean widens() {
        return true;
    }
}
