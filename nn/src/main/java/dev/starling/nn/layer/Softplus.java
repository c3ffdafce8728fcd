package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** ln(1 + eˣ), element by element. */
public record Softplus() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.softplus();
    }
}
