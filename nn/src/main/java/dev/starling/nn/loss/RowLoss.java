package dev.starling.nn.loss;

import dev.starling.tensor.Tensor;
import java.util.function.BinaryOperator;

/**
 * The mean of a function of result and target.
 *
 * @param name name of the loss
 * @param expectsLogits whether the function computes the softmax or sigmoid of the result
 * @param function the losses of the rows, {@code [N]}, or of their elements, {@code [N, ..]}
 */
record RowLoss(String name, boolean expectsLogits, BinaryOperator<Tensor> function) implements Loss {
    @Override
    public Tensor of(Tensor result, Tensor target) {
        return function.apply(Elementwise.wide(result), target).mean();
    }

    @Override
    public Tensor rows(Tensor result, Tensor target) {
        return means(function.apply(Elementwise.wide(result), target));
    }

    /** Returns the mean of each row, {@code [N, ..]} to {@code [N]}. */
    static Tensor means(Tensor losses) {
        return losses.rank() < 2 ? losses : losses.flatten(1, -1).mean(1);
    }

    @Override
    public String toString() {
        return name;
    }
}
