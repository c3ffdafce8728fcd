package dev.starling.tensor.op;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The arguments of {@link Op#vjp}.
 *
 * @param inputs the operation's operands
 * @param outputs its results
 * @param gradients of the scalar with respect to each output; {@code null} for outputs without one
 * @param needs which inputs need a gradient
 * @param through if not {@code null}, the epilogue that made operand 0, whose result no other operation reads: the
 *     gradient of operand 0 is then the one before that epilogue. Used with {@link Contraction.Linear} only
 * @param beforeEpilogue whether the first gradient is the one before this operation's own epilogue
 */
public record Backward(Tensor[] inputs, Tensor[] outputs, Tensor[] gradients, boolean[] needs,
        Epilogue.@Nullable Applied through, boolean beforeEpilogue) {
    /** Requests the gradients of the operands themselves. */
    public Backward(Tensor[] inputs, Tensor[] outputs, Tensor[] gradients, boolean[] needs) {
        this(inputs, outputs, gradients, needs, null, false);
    }

    /** Returns operand {@code i}. */
    public Tensor in(int i) {
        return inputs[i];
    }

    /** Returns output {@code i}. */
    public Tensor out(int i) {
        return outputs[i];
    }

    /** Returns the gradient of the first output. */
    public Tensor grad() {
        return grad(0);
    }

    /** Returns the gradient of output {@code i}, or zeros if it has none. */
    public Tensor grad(int i) {
        return gradients[i] != null ? gradients[i] : outputs[i].zerosLike();
    }

    /** Returns whether operand {@code i} needs its gradient. */
    public boolean needs(int i) {
        return needs[i];
    }

    /** Returns whether the gradient itself is recorded, so that only differentiable operations may be used. */
    public boolean recorded() {
        return Recorder.current() != Recorder.NONE;
    }
}
