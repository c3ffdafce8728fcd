package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** Merges all dimensions but the first: {@code [N, ..]} to {@code [N, F]}. */
public record Flatten() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.flatten(1, -1);
    }
}
