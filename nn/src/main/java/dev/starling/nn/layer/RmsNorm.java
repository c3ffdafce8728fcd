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

    /** Returns a layer over trailing dimensions of these sizes, with epsilon 1e-6. */
    public static RmsNorm of(long... sizes) {
        return new RmsNorm(1e-6, sizes);
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
