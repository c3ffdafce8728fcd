package dev.starling.nn.train;

import dev.starling.nn.loss.Loss;
import dev.starling.tensor.Tensor;

/**
 * The loss of one result of a model with several, which is reported beside the sum of them. Training and evaluation do
 * not call {@link #sumOver}, because they have the loss already.
 *
 * @param output name of the result
 * @param loss the loss
 */
record LossOfOutput(String output, Loss loss) implements Metric {
    @Override
    public String name() {
        return output + " loss";
    }

    @Override
    public double sumOver(Tensor result, Tensor target) {
        return loss.of(result, target).item() * target.size(0);
    }

    @Override
    public String format(double mean) {
        return ProgressLine.number(mean);
    }
}
