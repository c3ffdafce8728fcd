package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Splits a dimension into two halves a and b and returns a·σ(b): {@code [.., 2·C, ..]} to {@code [.., C, ..]}. (Dauphin
 * et al., 2016)
 *
 * @param axis the dimension, of even size; negative counts from the end
 */
public record Glu(int axis) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        long size = x.size(axis);
        if (size % 2 != 0) {
            throw new TensorException(TensorException.Problem.SHAPE, "glu", List.of(x.spec()), "dimension " + axis
                    + " must be even, got " + size, "give the layer before it an even number of outputs");
        }
        Tensor gate = x.narrow(axis, size / 2, size / 2).sigmoid();
        return x.narrow(axis, 0, size / 2).mul(gate);
    }
}
