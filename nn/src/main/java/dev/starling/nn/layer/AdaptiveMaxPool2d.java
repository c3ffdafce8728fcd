package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Maxima over windows of even size that cover the image: {@code [N, C, H, W]} to {@code [N, C, height, width]}.
 *
 * @param height height of the result
 * @param width width of the result
 */
public record AdaptiveMaxPool2d(int height, int width) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return Pools.adaptiveMaxPool(x, height, width);
    }
}
