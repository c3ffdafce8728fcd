package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;

/**
 * The logarithm of eˣ/Σeˣ along a dimension, computed without overflow.
 *
 * @param axis the dimension; negative counts from the end
 */
public record LogSoftmax(int axis) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.logSoftmax(axis);
    }
}
