package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * x where x &gt; 0, else slope·x.
 *
 * @param slope for negative numbers, usually 0.01
 */
public record LeakyRelu(double slope) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.leakyRelu(slope);
    }
}
