package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Mean of each window: {@code [N, C, L]} to {@code [N, C, L']}.
 *
 * @param kernel size of the window in each dimension
 * @param stride distance between neighbouring windows
 * @param padding zeros added on all sides, which count in the mean
 */
public record AvgPool1d(int kernel, int stride, int padding) implements Layer {
    /** Returns a layer with adjacent windows, which do not overlap. */
    public static AvgPool1d of(int kernel) {
        return new AvgPool1d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.avgPool1d(x, kernel, stride, padding);
    }
}
