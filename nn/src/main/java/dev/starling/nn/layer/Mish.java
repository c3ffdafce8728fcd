package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x·tanh(ln(1 + eˣ)), element by element. (Misra, 2019) */
public record Mish() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.mul(x.softplus().tanh());
    }
}
