package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * In training sets each element, independently, to 0 or else divides it by {@code 1 - probability}; else does nothing.
 * (Srivastava et al., 2014)
 *
 * @param probability of 0; at least 0, less than 1
 */
public record Dropout(double probability) implements Layer {
    /** Checks the probability. */
    public Dropout {
        if (!(probability >= 0 && probability < 1)) {
            throw TensorException.argument("dropout", "0 <= probability < 1 must hold, got " + probability,
                    "give another probability");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        return Mode.isTraining() ? Functions.dropout(x, probability, Mode.generator()) : x;
    }
}
