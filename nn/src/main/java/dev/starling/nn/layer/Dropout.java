package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * In training, sets each element independently to 0 with a probability and divides the others by
 * {@code 1 - probability}. In inference, returns its input. (Srivastava et al., 2014)
 *
 * @param probability probability of 0; at least 0, less than 1
 */
public record Dropout(double probability) implements Layer {
    /** Checks the probability. */
    public Dropout {
        if (!(probability >= 0 && probability < 1)) {
            throw TensorException.argument("dropout", "0 <= probability < 1 must hold, got " + probability,
                    "use a probability in [0, 1)");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        return Mode.isTraining() ? Functions.dropout(x, probability, Mode.generator()) : x;
    }
}
