package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x times its {@link HardSigmoid}, element by element. (Howard et al., 2019) */
public record HardSwish() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.mul(new HardSigmoid().forward(x));
    }
}
