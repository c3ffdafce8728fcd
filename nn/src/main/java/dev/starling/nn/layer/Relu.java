package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** max(x, 0), element by element. */
public record Relu() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.relu();
    }
}
