package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/**
 * x where x &gt; 0, otherwise slope·x, with a trained slope for all or for each channel: {@code x [N, C, ..]},
 * {@code weight [1]} or {@code [C]}. (He et al., 2015)
 */
public final class PRelu implements Layer {
    private final Parameter weight;

    private PRelu(Parameter weight) {
        this.weight = weight;
    }

    /** Returns a layer with one slope, which starts at 0.25. */
    public static PRelu of() {
        return of(1);
    }

    /** Returns a layer with a slope for each channel, which starts at 0.25. */
    public static PRelu of(long channels) {
        return new PRelu(Parameter.filled(0.25, channels));
    }

    @Override
    public Tensor forward(Tensor x) {
        long count = weight.shape().dim(0);
        if (count > 1 && (x.rank() < 2 || x.size(1) != count)) {
            throw new TensorException(TensorException.Problem.SHAPE, "prelu", List.of(x.spec()), "x must be [N, "
                    + count + ", ..]", "build the layer for the number of channels of x");
        }
        long[] shape = new long[Math.max(1, x.rank())];
        Arrays.fill(shape, 1);
        shape[x.rank() > 1 ? 1 : 0] = count;
        return x.gt(0).where(x, x.mul(weight.value().reshape(shape)));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
    }

    @Override
    public String settings() {
        return Long.toString(weight.shape().dim(0));
    }

    @Override
    public String toString() {
        return tree();
    }
}
