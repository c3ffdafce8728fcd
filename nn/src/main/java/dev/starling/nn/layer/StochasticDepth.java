package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Tensor;

/**
 * In training, sets each sample independently to 0 with a probability and divides the others by
 * {@code 1 - probability}: {@code [N, ..]}. At the end of the body of a {@link Residual} it skips the body. In
 * inference, returns its input. (Huang et al., 2016)
 *
 * @param probability probability of 0; at least 0, less than 1
 */
public record StochasticDepth(double probability) implements Layer {
    /** Checks the probability. */
    public StochasticDepth {
        new Dropout(probability);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Mode.isTraining() ? x.mul(Masks.kept(x, 1, probability)) : x;
    }
}
