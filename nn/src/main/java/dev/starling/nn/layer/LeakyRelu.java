package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * x where x &gt; 0, otherwise slope·x.
 *
 * @param slope factor of negative numbers, usually 0.01
 */
public record LeakyRelu(double slope) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.leakyRelu(slope);
    }
}
