package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.Tensor;

/**
 * {@code x·scale + offset}, element by element, as floating numbers: {@code new Rescale(1 / 255.0, 0)} converts bytes
 * of an image to [0, 1].
 *
 * @param scale factor
 * @param offset what is added
 */
public record Rescale(double scale, double offset) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return (x.dtype().isFloating() ? x : x.to(Precision.current().type())).mul(scale).add(offset);
    }
}
