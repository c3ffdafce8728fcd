package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** ln(1 + eˣ), element by element. (PyTorch returns x above 20; the difference is less than 3·10⁻⁹.) */
public record Softplus() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.softplus();
    }
}
