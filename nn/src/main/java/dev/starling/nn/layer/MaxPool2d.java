package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Tensor;

/**
 * Greatest element of each window: {@code [N, C, H, W]} to {@code [N, C, H', W']}.
 *
 * @param kernel height and width of the window
 * @param stride distance between neighbouring windows
 * @param padding on all sides; never the greatest
 */
public record MaxPool2d(int kernel, int stride, int padding) implements Layer {
    /** Windows side by side. */
    public static MaxPool2d of(int kernel) {
        return new MaxPool2d(kernel, kernel, 0);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Pools.maxPool2d(x, kernel, stride, padding);
    }
}
