package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;

/**
 * Spectral normalisation: divides a layer's weight, as a matrix {@code [out, ..]}, by its largest singular value. Each
 * pass in training improves the estimate of the singular value by one power iteration; inference does not change it. As
 * in {@code torch.nn.utils.spectral_norm}, an iteration computes the vector of the inputs first.
 * (Miyato et al., 2018)
 */
public final class SpectralNorm implements Layer {
    private static final int FIRST_ITERATIONS = 15;
    private static final double EPSILON = 1e-12;

    private final WeightedLayer layer;
    /** The estimated singular vectors, {@code [out]} and {@code [in]}. */
    private final Parameter left;
    private final Parameter right;

    private SpectralNorm(WeightedLayer layer, Generator generator) {
        this.layer = layer;
        try (Scope scope = Scope.open("spectralNorm")) {
            Tensor matrix = matrix(layer.weight().master());
            Tensor u = generator.normal(matrix.size(0)).to(matrix.device()).to(matrix.dtype());
            left = Parameter.buffer(normalised(u));
            right = Parameter.buffer(Tensor.full(matrix.spec().with(matrix.shape().without(0)), 0));
            for (int i = 0; i < FIRST_ITERATIONS; i++) {
                iterate(matrix);
            }
        }
    }

    /**
     * Returns a layer that normalises the weight of {@code layer}. Closing it closes {@code layer}.
     *
     * @param generator draws the first estimate of a singular vector
     */
    public static SpectralNorm of(Linear layer, Generator generator) {
        return new SpectralNorm(layer, generator);
    }

    /** As {@link #of(Linear, Generator)}, for a convolution. */
    public static SpectralNorm of(Conv layer, Generator generator) {
        return new SpectralNorm(layer, generator);
    }

    /** Returns {@code [out, ..]}; the weight of a transposed convolution is {@code [in, out, ..]}. */
    private Tensor matrix(Tensor weight) {
        return (layer instanceof Conv conv && conv.isTransposed() ? weight.transpose(0, 1) : weight).flatten(1, -1);
    }

    private static Tensor normalised(Tensor x) {
        return x.div(x.norm().clamp(EPSILON, Double.POSITIVE_INFINITY));
    }

    /** Performs a power iteration and returns the new singular vectors. */
    private Tensor[] iterate(Tensor matrix) {
        return Recorder.with(Recorder.NONE, () -> {
            Tensor v = normalised(left.master().to(matrix.dtype()).matmul(matrix));
            Tensor u = normalised(matrix.matmul(v));
            Tensor.apply(new Update.Assign(), left.master(), u.to(left.master().dtype()));
            Tensor.apply(new Update.Assign(), right.master(), v.to(right.master().dtype()));
            return new Tensor[] {u, v};
        });
    }

    @Override
    public Tensor forward(Tensor x) {
        Tensor weight = layer.weight().value();
        Tensor matrix = matrix(weight);
        // The vectors are constants of this pass: the next one changes the buffers.
        Tensor[] vectors = Mode.isTraining() ? iterate(matrix)
                : new Tensor[] {left.master().to(matrix.dtype()), right.master().to(matrix.dtype())};
        return layer.forward(x, weight.div(vectors[0].mul(matrix.matmul(vectors[1])).sum()));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("layer", layer);
        visitor.parameter("left", left);
        visitor.parameter("right", right);
    }

    @Override
    public String toString() {
        return tree();
    }
}
