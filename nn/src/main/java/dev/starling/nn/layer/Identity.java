package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** Returns its input, for example in place of a head that was removed. */
public record Identity() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x;
    }
}
