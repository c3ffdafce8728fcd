package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Largest element of each window: {@code [N, C, H, W]} to {@code [N, C, H', W']}.
 *
 * @param kernel height and width of the window
 * @param stride distance between neighbouring windows
 * @param padding width of the border on all sides, which is never the largest
 */
public record MaxPool2d(int kernel, int stride, int padding) implements Layer {
    /** Returns a layer with adjacent windows, which do not overlap. */
    public static MaxPool2d of(int kernel) {
        return new MaxPool2d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.maxPool2d(x, kernel, stride, padding);
    }
}
