package dev.starling.autograd;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The gradients of a result with respect to watched tensors. They belong to the scope in which they were computed, and
 * stay as they are when the tape is reset.
 *
 * <p>Gradients may share memory with each other and with the cotangent: those of {@code a} and {@code b} in
 * {@code a.add(b)} are one tensor. A change of one of them in place changes the others too; change a
 * {@code copy()} instead.
 */
public final class Gradients {
    /** The ids of the watched tensors. */
    private final long[] watched;
    private final Tensor[] gradients;
    /** Where the next search begins: callers usually ask in the order of the watched tensors. */
    private int next;

    Gradients(long[] watched, Tensor[] gradients) {
        this.watched = watched;
        this.gradients = gradients;
    }

    /** Returns the gradient with respect to {@code watched}, or {@code null} if the result does not depend on it. */
    public @Nullable Tensor get(Tensor watched) {
        int first = next;
        for (int i = 0; i < gradients.length; i++) {
            int at = (first + i) % gradients.length;
            if (this.watched[at] == watched.id()) {
                next = at + 1;
                return gradients[at];
            }
        }
        return null;
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
