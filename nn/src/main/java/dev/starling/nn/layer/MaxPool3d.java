package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Largest element of each window: {@code [N, C, D, H, W]} to {@code [N, C, D', H', W']}.
 *
 * @param kernel size of the window in each dimension
 * @param stride distance between neighbouring windows
 * @param padding width of the border on all sides, which is never the largest
 */
public record MaxPool3d(int kernel, int stride, int padding) implements Layer {
    /** Returns a layer with adjacent windows, which do not overlap. */
    public static MaxPool3d of(int kernel) {
        return new MaxPool3d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.maxPool3d(x, kernel, stride, padding);
    }
}
