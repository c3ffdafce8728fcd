package dev.starling.nn.layer;

import dev.starling.nn.Mode;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/** Draws factors by which layers drop whole parts of a tensor in training. */
final class Masks {
    private Masks() {
    }

    /**
     * Returns factors that broadcast to {@code x}: 0 with a probability, otherwise {@code 1/(1 - probability)}, one for
     * each element of the first {@code dimensions}.
     */
    static Tensor kept(Tensor x, int dimensions, double probability) {
        if (x.rank() < dimensions) {
            throw new TensorException(TensorException.Problem.SHAPE, "dropout", List.of(x.spec()), "x must have at "
                    + "least " + dimensions + " dimensions", "reshape it");
        }
        long[] shape = x.shape().dims();
        Arrays.fill(shape, dimensions, shape.length, 1);
        return Functions.dropout(Tensor.full(x.spec().with(Shape.of(shape)), 1), probability, Mode.generator());
    }
}
