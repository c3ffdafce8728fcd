package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Instance normalisation: normalises each channel of each sample over its positions, {@code [N, C, ..]}. (Ulyanov et
 * al., 2016)
 */
public final class InstanceNorm implements Layer {
    private static final double EPSILON = 1e-5;

    private final long channels;
    private final @Nullable Parameter weight;
    private final @Nullable Parameter bias;

    private InstanceNorm(long channels, @Nullable Parameter weight, @Nullable Parameter bias) {
        this.channels = channels;
        this.weight = weight;
        this.bias = bias;
    }

    /** Returns a layer without weights, with epsilon 1e-5. */
    public static InstanceNorm of(long channels) {
        return new InstanceNorm(channels, null, null);
    }

    /** Returns a layer that then scales and shifts each channel by trained numbers. */
    public static InstanceNorm affine(long channels) {
        return new InstanceNorm(channels, Parameter.filled(1, channels), Parameter.filled(0, channels));
    }

    @Override
    public Tensor forward(Tensor x) {
        if (x.rank() < 3 || x.size(1) != channels) {
            throw new TensorException(TensorException.Problem.SHAPE, "instanceNorm", List.of(x.spec()), "x must be [N, "
                    + channels + ", ..] with at least one dimension of positions",
                    "build the layer for the number of channels of x");
        }
        return Norms.instanceNorm(x, weight == null ? null : weight.master(), bias == null ? null : bias.master(),
                EPSILON);
    }

    @Override
    public void visit(Visitor visitor) {
        if (weight != null && bias != null) {
            visitor.parameter("weight", weight);
            visitor.parameter("bias", bias);
        }
    }

    @Override
    public String settings() {
        return channels + (weight == null ? "" : ", affine");
    }

    @Override
    public String toString() {
        return tree();
    }
}
