package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x, clamped to [0, 6], element by element. */
public record Relu6() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.clamp(0, 6);
    }
}
