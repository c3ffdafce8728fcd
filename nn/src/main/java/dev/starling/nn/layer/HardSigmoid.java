package dev.starling.nn.layer;

import dev.starling.autograd.CustomGradient;
import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * x/6 + 1/2, clamped to [0, 1], element by element. As in PyTorch the slope at -3 and at 3 is 0. (Howard et al., 2019)
 */
public record HardSigmoid() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return CustomGradient.apply(in -> in[0].mul(1 / 6.0).add(0.5).clamp(0, 1), (in, y, gradient) -> new Tensor[] {
            in[0].abs().lt(3).where(gradient.mul(1 / 6.0), gradient.zerosLike())}, x);
    }
}
