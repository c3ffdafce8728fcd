package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * eˣ/Σeˣ along a dimension. Do not put it at the end of a model trained with cross-entropy, which expects logits.
 *
 * @param axis the dimension; negative counts from the end
 */
public record Softmax(int axis) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.softmax(axis);
    }
}
