package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Mean of each window: {@code [N, C, D, H, W]} to {@code [N, C, D', H', W']}.
 *
 * @param kernel size of the window in each dimension
 * @param stride distance between neighbouring windows
 * @param padding zeros added on all sides, which count in the mean
 */
public record AvgPool3d(int kernel, int stride, int padding) implements Layer {
    /** Returns a layer with adjacent windows, which do not overlap. */
    public static AvgPool3d of(int kernel) {
        return new AvgPool3d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.avgPool3d(x, kernel, stride, padding);
    }
}
