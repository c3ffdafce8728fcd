package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * A dense layer with a low-rank adapter, {@code base(x) + (alpha/rank)·(x·Aᵀ)·Bᵀ}: {@code x [.., in]} to
 * {@code [.., out]}, with {@code lora_A [rank, in]} and {@code lora_B [out, rank]} besides the base's {@code weight}
 * and {@code bias}. B starts at 0, so that the layer starts as the base. {@link dev.starling.nn.model.Lora} makes them.
 * (Hu et al., 2021)
 */
public final class LoraLinear implements Layer {
    private final Linear base;
    private final Parameter down;
    private final Parameter up;
    private final double scale;
    private final Dropout dropout;

    private LoraLinear(Linear base, Parameter down, Parameter up, double scale, double dropout) {
        this.base = base;
        this.down = down;
        this.up = up;
        this.scale = scale;
        this.dropout = new Dropout(dropout);
    }

    /**
     * Returns a layer around {@code base}, whose parameters are shared and left as they are, frozen or not. A is drawn
     * as the weight of {@link Linear#of(long, long, Generator)}; the adapter has type and device of the base.
     */
    public static LoraLinear of(Linear base, int rank, double alpha, Generator generator) {
        if (rank < 1 || !Double.isFinite(alpha)) {
            throw TensorException.argument("lora", "rank >= 1 and a finite alpha are needed, got " + rank + " and "
                    + alpha, "use for example rank 8 and alpha 16");
        }
        Tensor weight = base.weight().master();
        Parameter down = Parameter.of(Initializer.fanInUniform(), generator, rank, weight.size(1));
        Parameter up = Parameter.filled(0, weight.size(0), rank);
        for (Parameter each : new Parameter[] {down, up}) {
            each.to(weight.device());
            each.to(weight.dtype());
        }
        return new LoraLinear(base, down, up, alpha / rank, 0);
    }

    /** Returns a layer with the same parameters that applies dropout to the adapter's input in training. */
    public LoraLinear dropout(double probability) {
        return new LoraLinear(base, down, up, scale, probability);
    }

    /** Returns the layer that is adapted. */
    public Linear base() {
        return base;
    }

    @Override
    public Tensor forward(Tensor x) {
        Tensor change = Functions.linear(Functions.linear(dropout.forward(x), down.value(), null), up.value(), null);
        return base.forward(x).add(change.mul(scale));
    }

    /**
     * Adds {@code (alpha/rank)·B·A} to the base's weight, and sets B to 0: this layer and its base then compute what
     * this layer has computed in inference mode before, to within rounding.
     */
    public void merge() {
        try (Scope scope = Scope.open("merge")) {
            Recorder.with(Recorder.NONE, () -> {
                Tensor weight = base.weight().master();
                base.weight().set(weight.add(up.master().matmul(down.master()).mul(scale)));
                up.set(up.master().zerosLike());
                return null;
            });
        }
    }

    @Override
    public void visit(Visitor visitor) {
        base.visit(visitor);
        visitor.parameter("lora_A", down);
        visitor.parameter("lora_B", up);
    }

    @Override
    public String settings() {
        return base.settings() + ", rank=" + down.shape().dim(0) + ", scale=" + scale + (dropout.probability() > 0
                ? ", dropout=" + dropout.probability() : "");
    }

    @Override
    public String toString() {
        return tree();
    }
}
