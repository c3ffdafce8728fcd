package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Tensor;

/**
 * Group normalisation: normalises groups of each sample's channels {@code [N, C, ..]}. With one group it normalises the
 * whole sample; with one group per channel it is instance normalisation. (Wu and He, 2018)
 */
public final class GroupNorm implements Layer {
    private static final double EPSILON = 1e-5;

    private final Parameter weight;
    private final Parameter bias;
    private final int groups;
    private final double epsilon;

    private GroupNorm(double epsilon, int groups, long channels) {
        this.groups = groups;
        this.epsilon = epsilon;
        weight = Parameter.filled(1, channels);
        bias = Parameter.filled(0, channels);
    }

    /** Returns a layer with epsilon 1e-5. The number of channels must be divisible by {@code groups}. */
    public static GroupNorm of(int groups, long channels) {
        return withEpsilon(EPSILON, groups, channels);
    }

    /** Returns a layer with another number added to the variance. */
    public static GroupNorm withEpsilon(double epsilon, int groups, long channels) {
        return new GroupNorm(epsilon, groups, channels);
    }

    @Override
    public Tensor forward(Tensor x) {
        return Norms.groupNorm(x, groups, weight.master(), bias.master(), epsilon);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
        visitor.parameter("bias", bias);
    }

    @Override
    public String settings() {
        return groups + ", " + weight.shape().dim(0);
    }

    @Override
    public String toString() {
        return tree();
    }
}
