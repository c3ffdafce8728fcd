package dev.starling.nn.train;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A batch of a step.
 *
 * @param fields the model's inputs and the targets for its losses, in the order of {@link Task#fields}, on any device
 * @param weight weight of the batch in the step's gradient
 * @param scope the scope of the batch inside that of the step; {@code null} if the step consists of this batch
 * @param last whether the gradients are final after this batch
 */
record StepBatch(Tensor[] fields, double weight, @Nullable Scope scope, boolean last) {
    /** Returns the batch of a step that consists of it. */
    static StepBatch single(Tensor[] fields, double weight) {
        return new StepBatch(fields, weight, null, true);
    }

    long rows() {
        return fields[0].size(0);
    }
}
