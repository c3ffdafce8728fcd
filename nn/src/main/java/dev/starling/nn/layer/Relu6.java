package dev.starling.nn.layer;

import dev.starling.autograd.CustomGradient;
import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/** x, clamped to [0, 6], element by element. As in PyTorch the slope at 0 and at 6 is 0, where that of a clamp is 1. */
public record Relu6() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return CustomGradient.apply(in -> in[0].clamp(0, 6), (in, y, gradient) -> new Tensor[] {y.gt(0).and(y.lt(6))
                .where(gradient, gradient.zerosLike())}, x);
    }
}
