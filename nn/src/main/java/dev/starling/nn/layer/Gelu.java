package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Epilogue;

/**
 * x·Φ(x), element by element. (Hendrycks and Gimpel, 2016)
 *
 * @param tanh whether Φ is approximated with tanh, as in GPT-2, instead of computed with the error function. A
 *     preceding dense layer computes the approximation in the same pass
 */
public record Gelu(boolean tanh) implements Layer {
    /** Creates the layer with the error function. */
    public Gelu() {
        this(false);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Tensor.compute(tanh ? Activation.GELU_TANH : Activation.GELU, x);
    }

    @Override
    public Epilogue epilogue() {
        return tanh ? Epilogue.GELU : Epilogue.NONE;
    }
}
