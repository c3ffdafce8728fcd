package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** The mean over all spatial dimensions: {@code [N, C, *spatial]} to {@code [N, C]}. */
public record GlobalAvgPool() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.flatten(2, -1).mean(2);
    }
}
