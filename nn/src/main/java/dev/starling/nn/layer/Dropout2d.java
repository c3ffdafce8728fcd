package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Tensor;

/**
 * In training, sets each channel of each sample independently to 0 with a probability and divides the others by
 * {@code 1 - probability}: {@code [N, C, ..]}. In inference, returns its input. (Tompson et al., 2015)
 *
 * @param probability probability of 0; at least 0, less than 1
 */
public record Dropout2d(double probability) implements Layer {
    /** Checks the probability. */
    public Dropout2d {
        new Dropout(probability);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Mode.isTraining() ? x.mul(Masks.kept(x, 2, probability)) : x;
    }
}
