package dev.starling.nn.layer;

import dev.starling.nn.Fusible;
import dev.starling.nn.Initializer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;
import org.jspecify.annotations.Nullable;

/** Dense layer {@code x·weightᵀ + bias}: {@code x [.., in]}, {@code weight [out, in]}, {@code bias [out]}. */
public final class Linear implements Fusible, WeightedLayer {
    private final Parameter weight;
    private final @Nullable Parameter bias;

    private Linear(Parameter weight, @Nullable Parameter bias) {
        this.weight = weight;
        this.bias = bias;
    }

    /** Returns a layer with weights and bias drawn uniformly from ±1/√in. */
    public static Linear of(long in, long out, Generator generator) {
        Parameter weight = Parameter.of(Initializer.fanInUniform(), generator, out, in);
        double bound = 1 / Math.sqrt(Math.max(1, in));
        return new Linear(weight, Parameter.of(Initializer.uniform(-bound, bound), generator, out));
    }

    /** Returns a layer without bias, with weights drawn uniformly from ±1/√in. */
    public static Linear withoutBias(long in, long out, Generator generator) {
        return new Linear(Parameter.of(Initializer.fanInUniform(), generator, out, in), null);
    }

    /** Returns a layer with the caller's parameters; {@code bias} may be {@code null}. */
    public static Linear of(Parameter weight, @Nullable Parameter bias) {
        return new Linear(weight, bias);
    }

    /** Returns the weight {@code [out, in]}. */
    @Override
    public Parameter weight() {
        return weight;
    }

    /** Returns the bias {@code [out]}, or {@code null}. */
    public @Nullable Parameter bias() {
        return bias;
    }

    /** Returns a layer with weights of its own that computes {@code factor·forward(x) + offset} per channel. */
    Linear scaled(Tensor factor, Tensor offset) {
        Tensor shift = bias == null ? offset : bias.master().mul(factor).add(offset);
        return new Linear(Parameter.of(weight.master().mul(factor.unsqueeze(1)).to(weight.master().dtype())),
                Parameter.of(shift.to(weight.master().dtype())));
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, Epilogue.NONE);
    }

    @Override
    public Tensor forward(Tensor x, Tensor other) {
        return Functions.linear(x, other, bias == null ? null : bias.value());
    }

    @Override
    public Tensor forward(Tensor x, Epilogue epilogue) {
        return Functions.linear(x, weight.value(), bias == null ? null : bias.value(), epilogue);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
        if (bias != null) {
            visitor.parameter("bias", bias);
        }
    }

    @Override
    public String settings() {
        return weight.shape().dim(1) + ", " + weight.shape().dim(0) + (bias == null ? ", bias=false" : "");
    }

    @Override
    public String toString() {
        return tree();
    }
}
