package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Mean of each window: {@code [N, C, H, W]} to {@code [N, C, H', W']}.
 *
 * @param kernel height and width of the window
 * @param stride distance between neighbouring windows
 * @param padding zeros added on all sides, which count in the mean
 */
public record AvgPool2d(int kernel, int stride, int padding) implements Layer {
    /** Returns a layer with adjacent windows, which do not overlap. */
    public static AvgPool2d of(int kernel) {
        return new AvgPool2d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.avgPool2d(x, kernel, stride, padding);
    }
}
