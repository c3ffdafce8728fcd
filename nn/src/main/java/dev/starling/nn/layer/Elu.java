package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * x where x &gt; 0, otherwise alpha·(eˣ - 1). (Clevert et al., 2015)
 *
 * @param alpha negative of the limit for large negative x, usually 1
 */
public record Elu(double alpha) implements Layer {
    /** Throws {@link TensorException} if {@code alpha} is not finite. */
    public Elu {
        if (!Double.isFinite(alpha)) {
            throw TensorException.argument("elu", "alpha must be finite, got " + alpha, "1 is usual");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        return x.elu(alpha);
    }
}
