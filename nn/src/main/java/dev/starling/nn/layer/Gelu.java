package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x·Φ(x), element by element, with the error function. (Hendrycks and Gimpel, 2016) */
public record Gelu() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.gelu();
    }
}
