package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Tensor;

/** Layer normalisation over trailing dimensions: {@code x [.., *sizes]}. (Ba, Kiros and Hinton, 2016) */
public final class LayerNorm implements Layer {
    private static final double EPSILON = 1e-5;

    private final Parameter weight;
    private final Parameter bias;
    private final double epsilon;

    private LayerNorm(double epsilon, long... sizes) {
        weight = Parameter.filled(1, sizes);
        bias = Parameter.filled(0, sizes);
        this.epsilon = epsilon;
    }

    /** Returns a layer over trailing dimensions of these sizes, with epsilon 1e-5. */
    public static LayerNorm of(long... sizes) {
        return withEpsilon(EPSILON, sizes);
    }

    /** Returns a layer with another number added to the variance. */
    public static LayerNorm withEpsilon(double epsilon, long... sizes) {
        return new LayerNorm(epsilon, sizes);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Norms.layerNorm(x, weight.master(), bias.master(), epsilon);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
        visitor.parameter("bias", bias);
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
