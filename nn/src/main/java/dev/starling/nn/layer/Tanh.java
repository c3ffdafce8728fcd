package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** The hyperbolic tangent, element by element. */
public record Tanh() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.tanh();
    }
}
