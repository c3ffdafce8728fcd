package dev.starling.nn.train;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A batch of a step.
 *
 * @param input the model's input, on any device
 * @param target the target for the loss, on any device
 * @param weight weight of the batch in the step's gradient
 * @param scope the scope of the batch inside that of the step; {@code null} if the step consists of this batch
 * @param last whether the gradients are final after this batch
 */
record StepBatch(Tensor input, Tensor target, double weight, @Nullable Scope scope, boolean last) {
    /** Returns the batch of a step that consists of it. */
    static StepBatch single(Tensor input, Tensor target, double weight) {
        return new StepBatch(input, target, weight, null, true);
    }
}
