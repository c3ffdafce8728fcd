package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * x where x &gt; 0, otherwise slope·x.
 *
 * @param slope factor of negative numbers, usually 0.01
 */
public record LeakyRelu(double slope) implements Layer {
    /** Throws {@link TensorException} if {@code slope} is not finite. */
    public LeakyRelu {
        if (!Double.isFinite(slope)) {
            throw TensorException.argument("leakyRelu", "the slope must be finite, got " + slope, "0.01 is usual");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        return x.leakyRelu(slope);
    }
}
