package dev.starling.autograd;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The gradients of a result with respect to watched tensors. They belong to the scope in which they were computed. */
public final class Gradients {
    private final VariableMap variables;
    private final Tensor[] gradients;

    Gradients(VariableMap variables, Tensor[] gradients) {
        this.variables = variables;
        this.gradients = gradients;
    }

    /** Returns the gradient with respect to {@code watched}, or {@code null} if the result does not depend on it. */
    public @Nullable Tensor get(Tensor watched) {
        int variable = variables.get(watched.id());
        return variable < 0 || variable >= gradients.length ? null : gradients[variable];
    }

    /**
     * Returns the gradient with respect to {@code watched}.
     *
     * @throws TensorException if the result does not depend on it
     */
    public Tensor of(Tensor watched) {
        Tensor gradient = get(watched);
        if (gradient == null) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "gradient", List.of(watched.spec()),
                    "the result does not depend on this tensor, or the tape did not watch it",
                    "call tape.watch() with it before recording, and use it in differentiable operations");
        }
        return gradient;
    }
}
