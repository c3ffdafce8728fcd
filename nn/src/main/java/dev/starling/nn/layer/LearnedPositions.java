package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Adds a trained vector to each position: {@code x [.., L, width]} with {@code L <= length} to the same shape, with
 * {@code weight [length, width]}.
 */
public final class LearnedPositions implements Layer {
    private final Parameter weight;

    private LearnedPositions(Parameter weight) {
        this.weight = weight;
    }

    /** Returns a layer for up to {@code length} positions, drawn from the normal distribution with deviation 0.02. */
    public static LearnedPositions of(long length, long width, Generator generator) {
        return new LearnedPositions(Parameter.of(Initializer.normal(0, 0.02), generator, length, width));
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, 0);
    }

    /** Computes the same for vectors of which the first is at position {@code first}. */
    public Tensor forward(Tensor x, long first) {
        long length = x.rank() < 2 ? -1 : x.size(-2);
        if (length < 0 || first < 0 || first + length > weight.shape().dim(0)) {
            throw new TensorException(TensorException.Problem.SHAPE, "learned positions", List.of(x.spec()),
                    "x must be [.., L, width] at positions from 0 to " + (weight.shape().dim(0) - 1)
                    + ", the first is at " + first, "cut the sequence, or build the layer for more positions");
        }
        return x.add(weight.value().narrow(0, first, length));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
    }

    @Override
    public String settings() {
        return weight.shape().dim(0) + ", " + weight.shape().dim(1);
    }

    @Override
    public String toString() {
        return tree();
    }
}
