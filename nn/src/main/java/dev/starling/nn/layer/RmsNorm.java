package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Tensor;

/**
 * Divides by the root of the mean square over trailing dimensions: {@code x [.., *sizes]}. (Zhang and Sennrich, 2019)
 */
public final class RmsNorm implements Layer {
    private final Parameter weight;
    private final double epsilon;

    private RmsNorm(double epsilon, long... sizes) {
        weight = Parameter.filled(1, sizes);
        this.epsilon = epsilon;
    }

    /**
     * Returns a layer over trailing dimensions of these sizes, with epsilon 1e-6. (PyTorch's default depends on the
     * type of x; this one is the same in all types, so that a model computes the same function in mixed precision.)
     */
    public static RmsNorm of(long... sizes) {
        return withEpsilon(1e-6, sizes);
    }

    /** Returns a layer with another number added to the mean square. */
    public static RmsNorm withEpsilon(double epsilon, long... sizes) {
        return new RmsNorm(epsilon, sizes);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Norms.rmsNorm(x, weight.master(), epsilon);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
    }

    @Override
    public String settings() {
        return weight.shape() + ", epsilon=" + epsilon;
    }

    @Override
    public String toString() {
        return tree();
    }
}
