package dev.starling.nn.layer;

import dev.starling.nn.Fusible;
import dev.starling.nn.Initializer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Convolution over 1, 2 or 3 spatial dimensions: {@code x [N, in, *spatial]}, {@code weight [out, in/groups, *kernel]},
 * {@code bias [out]}, result {@code [N, out, *spatial']}. Transposed, it has {@code weight [in, out/groups, *kernel]}.
 * {@link Conv1d}, {@link Conv2d} and {@link Conv3d} create it.
 */
public final class Conv implements Fusible, WeightedLayer {
    private final Parameter weight;
    private final @Nullable Parameter bias;
    private final Geometry geometry;
    private final int @Nullable [] outputPadding;

    private Conv(Parameter weight, @Nullable Parameter bias, Geometry geometry, int @Nullable [] outputPadding) {
        this.weight = weight;
        this.bias = bias;
        this.geometry = geometry;
        this.outputPadding = outputPadding;
    }

    /** Returns the weight. */
    @Override
    public Parameter weight() {
        return weight;
    }

    /** Returns the bias {@code [out]}, or {@code null}. */
    public @Nullable Parameter bias() {
        return bias;
    }

    /** Returns stride, padding, dilation and groups. */
    public Geometry geometry() {
        return geometry;
    }

    boolean isTransposed() {
        return outputPadding != null;
    }

    /**
     * Returns a layer with weights of its own that computes {@code factor·forward(x) + offset} per channel of the
     * result, if this one is not transposed.
     */
    Conv scaled(Tensor factor, Tensor offset) {
        Tensor w = weight.master();
        Tensor shift = bias == null ? offset : bias.master().mul(factor).add(offset);
        long[] channels = new long[w.rank()];
        Arrays.fill(channels, 1);
        channels[0] = factor.count();
        Tensor scaled = w.mul(factor.reshape(channels)).to(w.dtype());
        return new Conv(Parameter.ofConvolution((shape, generator) -> scaled, Generator.seeded(0), w.shape().dims()),
                Parameter.of(shift.to(w.dtype())), geometry, null);
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, Epilogue.NONE);
    }

    @Override
    public Tensor forward(Tensor x, Tensor other) {
        Tensor b = bias == null ? null : bias.value();
        return outputPadding == null ? Convolutions.conv(x, other, b, geometry, Epilogue.NONE)
                : Convolutions.convTranspose(x, other, b, geometry, outputPadding);
    }

    @Override
    public Tensor forward(Tensor x, Epilogue epilogue) {
        if (outputPadding == null && epilogue != Epilogue.GELU) {
            return Convolutions.conv(x, weight.value(), bias == null ? null : bias.value(), geometry, epilogue);
        }
        return epilogue.apply(forward(x, weight.value()));
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
        return ConvSettings.of(weight.shape(), geometry, outputPadding, bias != null);
    }

    @Override
    public String toString() {
        return tree();
    }

    @Override
    public String describe() {
        return (outputPadding == null ? "Conv" : "ConvTranspose") + geometry.rank() + "d";
    }

    /**
     * Collects the settings of a convolution. A single value given for a geometry applies to all spatial dimensions.
     */
    public static final class Builder {
        private final long in;
        private final long out;
        private final int[] kernel;
        private int[] stride;
        private int[] padding;
        private int[] dilation;
        private int @Nullable [] outputPadding;
        private int groups = 1;
        private boolean bias = true;
        private Initializer initializer = Initializer.fanInUniform();

        Builder(int rank, long in, long out, int... kernel) {
            this.in = in;
            this.out = out;
            this.kernel = each(rank, "kernel", kernel);
            stride = each(rank, "stride", 1);
            padding = each(rank, "padding", 0);
            dilation = each(rank, "dilation", 1);
        }

        private static int[] each(int rank, String what, int... values) {
            if (values.length != 1 && values.length != rank) {
                throw TensorException.argument("conv" + rank + "d", "expected 1 or " + rank + " values for " + what
                        + ", got " + Arrays.toString(values), "pass one value, or one per spatial dimension");
            }
            int[] all = Arrays.copyOf(values, rank);
            Arrays.fill(all, values.length, rank, values[0]);
            return all;
        }

        /** Sets the distance between neighbouring positions of the kernel; default 1. */
        public Builder stride(int... values) {
            stride = each(kernel.length, "stride", values);
            return this;
        }

        /** Sets the number of zeros that surround the input on each side; default 0. */
        public Builder padding(int... values) {
            padding = each(kernel.length, "padding", values);
            return this;
        }

        /** Sets the distance between neighbouring kernel elements; default 1. */
        public Builder dilation(int... values) {
            dilation = each(kernel.length, "dilation", values);
            return this;
        }

        /** Splits the channels into groups that are convolved separately; default 1. */
        public Builder groups(int count) {
            if (count < 1 || in % count != 0 || out % count != 0) {
                throw TensorException.argument("conv", "groups must divide " + in + " and " + out + ", got " + count,
                        "change groups or channels");
            }
            groups = count;
            return this;
        }

        /** Omits the bias. */
        public Builder withoutBias() {
            bias = false;
            return this;
        }

        /** Sets the initialiser of the weights; default {@link Initializer#fanInUniform}. */
        public Builder initializer(Initializer value) {
            initializer = value;
            return this;
        }

        /** Selects the transposed convolution. The output padding, less than the stride, enlarges its result. */
        public Builder transposed(int... values) {
            outputPadding = each(kernel.length, "output padding", values.length == 0 ? new int[1] : values);
            return this;
        }

        /** Returns the layer, on the current device. */
        public Conv build(Generator generator) {
            boolean transposed = outputPadding != null;
            long[] shape = new long[kernel.length + 2];
            shape[0] = transposed ? in : out;
            shape[1] = (transposed ? out : in) / groups;
            long fan = shape[1];
            for (int i = 0; i < kernel.length; i++) {
                shape[i + 2] = kernel[i];
                fan *= kernel[i];
            }
            Parameter weight = Parameter.ofConvolution(initializer, generator, shape);
            double bound = 1 / Math.sqrt(Math.max(1, fan));
            Parameter offset = bias ? Parameter.of(Initializer.uniform(-bound, bound), generator, out) : null;
            return new Conv(weight, offset, new Geometry(stride, padding, dilation, groups), outputPadding);
        }
    }
}
