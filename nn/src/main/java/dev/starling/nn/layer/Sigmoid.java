package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** 1/(1 + e⁻ˣ), element by element. */
public record Sigmoid() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.sigmoid();
    }
}
