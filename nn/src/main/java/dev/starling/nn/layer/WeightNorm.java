package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/**
 * Weight normalisation: trains length and direction of each row of a layer's weight {@code [out, ..]} separately, as
 * {@code length·v/‖v‖}, where v is the layer's own weight. As in PyTorch, the rows of a transposed convolution's weight
 * {@code [in, ..]} are those of its inputs. (Salimans and Kingma, 2016)
 */
public final class WeightNorm implements Layer {
    private final WeightedLayer layer;
    /** {@code [out, 1, ..]}. */
    private final Parameter length;

    private WeightNorm(WeightedLayer layer) {
        this.layer = layer;
        try (Scope scope = Scope.open("weightNorm")) {
            Tensor weight = layer.weight().master();
            length = Recorder.with(Recorder.NONE, () -> Parameter.of(norms(weight).to(weight.dtype())));
        }
    }

    /** Returns a layer that first computes the same as {@code layer}. Closing it closes {@code layer}. */
    public static WeightNorm of(Linear layer) {
        return new WeightNorm(layer);
    }

    /** Returns a layer that first computes the same as {@code layer}. Closing it closes {@code layer}. */
    public static WeightNorm of(Conv layer) {
        return new WeightNorm(layer);
    }

    /**
     * Returns the length of each row, {@code [out, ..]} to {@code [out, 1, ..]}; in f32 for 16-bit floats, since the
     * squares of small weights are 0 in f16.
     */
    private static Tensor norms(Tensor weight) {
        if (weight.rank() < 2) {
            throw new TensorException(TensorException.Problem.SHAPE, "weightNorm", List.of(weight.spec()),
                    "the weight must be [out, ..], with at least two dimensions", "reshape it");
        }
        int[] others = new int[weight.rank() - 1];
        Arrays.setAll(others, i -> i + 1);
        return (weight.dtype().bytes() == 2 ? weight.to(DType.F32) : weight).square().sum(true, others).sqrt();
    }

    @Override
    public Tensor forward(Tensor x) {
        Tensor v = layer.weight().value();
        return layer.forward(x, v.mul(length.value().div(norms(v))).to(v.dtype()));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("length", length);
        visitor.layer("layer", layer);
    }

    @Override
    public String toString() {
        return tree();
    }
}
