package dev.starling.tensor.op;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;

/**
 * What {@link Op#vjp} is given.
 *
 * @param inputs the operation's operands
 * @param outputs its results
 * @param gradients of the scalar with respect to each output; {@code null} where none flows
 * @param needs which inputs' gradients are asked for
 * @param through if not {@code null}, the epilogue by which operand 0 was made and that nobody else read: the gradient
 *     asked for operand 0 is the one before that epilogue; {@link Contraction.Linear} alone is asked so
 * @param beforeEpilogue whether the first gradient is the one before this operation's own epilogue
 */
public record Backward(Tensor[] inputs, Tensor[] outputs, Tensor[] gradients, boolean[] needs,
        Epilogue.Applied through, boolean beforeEpilogue) {
    /** Asks for the gradients of operands as they are. */
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

    /** Returns the gradient of output {@code i}, zeros where none flows. */
    public Tensor grad(int i) {
        return gradients[i] != null ? gradients[i] : outputs[i].zerosLike();
    }

    /** Tells whether operand {@code i} needs its gradient. */
    public boolean needs(int i) {
        return needs[i];
    }

    /** Tells whether someone records the gradient itself, so that only operations with a gradient may be used. */
    public boolean recorded() {
        return Recorder.current() != Recorder.NONE;
    }
}
