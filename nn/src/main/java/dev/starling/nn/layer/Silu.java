package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x/(1 + e⁻ˣ), element by element. */
public record Silu() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.silu();
    }
}
