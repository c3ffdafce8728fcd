package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * {@code s·x} where x &gt; 0, otherwise {@code s·a·(eˣ - 1)}, with s and a that preserve mean 0 and variance 1.
 * (Klambauer et al., 2017)
 */
public record Selu() implements Layer {
    private static final double ALPHA = 1.6732632423543772;
    private static final double SCALE = 1.0507009873554805;

    @Override
    public Tensor forward(Tensor x) {
        return x.elu(ALPHA).mul(SCALE);
    }
}
