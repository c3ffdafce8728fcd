package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * x where x &gt; 0, otherwise alpha·(eˣ - 1). (Clevert et al., 2015)
 *
 * @param alpha negative of the limit for large negative x, usually 1
 */
public record Elu(double alpha) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.elu(alpha);
    }
}
