package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * {@code x·scale + offset}, element by element, as floating numbers: {@code new Rescale(1 / 255.0, 0)} converts bytes
 * of an image to [0, 1]. Integers are computed in f32, or in f64 if they have more than 8 bits, and the result is
 * rounded to the type of the {@link Precision}.
 *
 * @param scale factor
 * @param offset what is added
 */
public record Rescale(double scale, double offset) implements Layer {
    /** Throws {@link TensorException} if scale or offset are not finite. */
    public Rescale {
        if (!Double.isFinite(scale) || !Double.isFinite(offset)) {
            throw TensorException.argument("rescale", "scale and offset must be finite, got " + scale + " and "
                    + offset, "correct them");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        Tensor y = x.to(x.dtype().toFloating()).mul(scale).add(offset);
        return x.dtype().isFloating() ? y : y.to(Precision.current().type());
    }
}
