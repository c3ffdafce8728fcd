package dev.starling.tensor;

import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Convolution and transposed convolution over 1, 2 or 3 spatial dimensions. {@link Convolution} documents the shapes; a
 * bias may be {@code null}.
 */
public final class Convolutions {
    private Convolutions() {
    }

    /** Convolution: {@code x [N, C, L]}, {@code weight [O, C/groups, kernel]}, {@code bias [O]}. */
    public static Tensor conv1d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding, int dilation,
            int groups) {
        return conv(x, weight, bias, Geometry.of(1, stride, padding, dilation, groups), Epilogue.NONE);
    }

    /** Convolution: {@code x [N, C, H, W]}, {@code weight [O, C/groups, kH, kW]}, {@code bias [O]}. */
    public static Tensor conv2d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding, int dilation,
            int groups) {
        return conv(x, weight, bias, Geometry.of(2, stride, padding, dilation, groups), Epilogue.NONE);
    }

    /** Convolution with separate values for height and width. */
    public static Tensor conv2d(Tensor x, Tensor weight, @Nullable Tensor bias, int[] stride, int[] padding,
            int[] dilation,
            int groups) {
        return conv(x, weight, bias, geometry(2, stride, padding, dilation, groups), Epilogue.NONE);
    }

    /** Convolution: {@code x [N, C, D, H, W]}, {@code weight [O, C/groups, kD, kH, kW]}, {@code bias [O]}. */
    public static Tensor conv3d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding, int dilation,
            int groups) {
        return conv(x, weight, bias, Geometry.of(3, stride, padding, dilation, groups), Epilogue.NONE);
    }

    /** Convolution with separate values for depth, height and width. */
    public static Tensor conv3d(Tensor x, Tensor weight, @Nullable Tensor bias, int[] stride, int[] padding,
            int[] dilation,
            int groups) {
        return conv(x, weight, bias, geometry(3, stride, padding, dilation, groups), Epilogue.NONE);
    }

    /**
     * Convolution of any rank.
     *
     * @param x {@code [N, C, *in]}
     * @param weight {@code [O, C/groups, *kernel]}
     * @param bias {@code [O]}, or {@code null}
     * @param geometry stride, padding, dilation, groups
     * @param epilogue applied to the result in the same pass
     * @return {@code [N, O, *out]}
     */
    public static Tensor conv(Tensor x, Tensor weight, @Nullable Tensor bias, Geometry geometry, Epilogue epilogue) {
        Convolution.Conv op = new Convolution.Conv(geometry, epilogue);
        return bias == null ? Tensor.compute(op, x, weight) : Tensor.compute(op, x, weight, bias);
    }

    /**
     * Returns weights in the memory layout that convolutions on their device read without a copy. Use it for weights
     * that several convolutions share.
     *
     * @param weight {@code [O, C/groups, *kernel]}
     * @return {@code weight} itself if it already has that layout, else a copy of the same shape and elements, through
     *     which no gradient flows
     */
    public static Tensor arranged(Tensor weight) {
        if (weight.rank() < 3 || !weight.device().backend().convolvesChannelsLast() || ChannelsLast.holds(weight)) {
            return weight;
        }
        Tensor copy = Storage.allocate(weight.spec(), ChannelsLast.strides(weight.shape()));
        Tensor.apply(new Update.Assign(), copy, weight);
        return copy;
    }

    /** Transposed convolution: {@code x [N, C, L]}, {@code weight [C, O/groups, kernel]}, {@code bias [O]}. */
    public static Tensor convTranspose1d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding,
            int outputPadding, int dilation, int groups) {
        return convTranspose(x, weight, bias, Geometry.of(1, stride, padding, dilation, groups), outputPadding);
    }

    /** Transposed convolution: {@code x [N, C, H, W]}, {@code weight [C, O/groups, kH, kW]}, {@code bias [O]}. */
    public static Tensor convTranspose2d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding,
            int outputPadding, int dilation, int groups) {
        return convTranspose(x, weight, bias, Geometry.of(2, stride, padding, dilation, groups), outputPadding,
                outputPadding);
    }

    /** Transposed convolution: {@code x [N, C, D, H, W]}, {@code weight [C, O/groups, kD, kH, kW]}. */
    public static Tensor convTranspose3d(Tensor x, Tensor weight, @Nullable Tensor bias, int stride, int padding,
            int outputPadding, int dilation, int groups) {
        return convTranspose(x, weight, bias, Geometry.of(3, stride, padding, dilation, groups), outputPadding,
                outputPadding, outputPadding);
    }

    /**
     * Transposed convolution: the gradient of a convolution of {@code geometry} with respect to its input, with {@code
     * out = (in - 1)·stride - 2·padding + dilation·(kernel - 1) + 1 + outputPadding}.
     *
     * @param x {@code [N, C, *in]}
     * @param weight {@code [C, O/groups, *kernel]}
     * @param bias {@code [O]}, or {@code null}
     * @param outputPadding one value per spatial dimension, less than the stride: selects among the output sizes that
     *     the stride rounds to one input size
     * @return {@code [N, O, *out]}
     */
    public static Tensor convTranspose(Tensor x, Tensor weight, @Nullable Tensor bias, Geometry geometry,
            int... outputPadding) {
        int rank = geometry.rank();
        List<Spec> operands = List.of(x.spec(), weight.spec());
        if (x.rank() != rank + 2 || weight.rank() != rank + 2) {
            throw new TensorException(TensorException.Problem.SHAPE, "convTranspose", operands,
                    "x and weight must have rank " + (rank + 2), "reshape them");
        }
        if (outputPadding.length != rank || geometry.padding().length != rank || geometry.dilation().length != rank) {
            throw argument(operands, "needs one padding, dilation and output padding for each of the " + rank
                    + " dimensions", "give " + rank + " of each");
        }
        if (geometry.groups() <= 0 || weight.size(1) > Integer.MAX_VALUE) {
            throw argument(operands, "groups must be > 0 and output channels must be < 2^31, got " + geometry,
                    "change groups or the weight");
        }
        long[] out = new long[rank + 2];
        out[0] = x.size(0);
        out[1] = weight.size(1) * geometry.groups();
        for (int i = 0; i < rank; i++) {
            out[i + 2] = transposed(operands, geometry, i, outputPadding[i]);
        }
        Tensor y = Tensor.compute(new Convolution.ConvInputGradient(geometry, Shape.of(out)), x, weight);
        return bias == null ? y : y.add(bias.reshape(Norms.perChannel(y)));
    }

    /** Returns the output's size. Operand sizes below 2³¹ cannot overflow a long here. */
    private static long transposed(List<Spec> operands, Geometry geometry, int i, int outputPadding) {
        long in = operands.get(0).shape().dim(i + 2);
        long kernel = operands.get(1).shape().dim(i + 2);
        int stride = geometry.stride()[i];
        if (outputPadding < 0 || outputPadding >= stride) {
            throw argument(operands, "0 <= output padding < stride must hold, got " + outputPadding + " and " + stride,
                    "use a smaller output padding");
        }
        if (Math.max(in, kernel) > Integer.MAX_VALUE) {
            throw argument(operands, "sizes must be < 2^31 in dimension " + (i + 2), "use smaller operands");
        }
        long size = (in - 1) * stride - 2L * geometry.padding()[i] + geometry.dilation()[i] * (kernel - 1) + 1
                + outputPadding;
        if (size > Integer.MAX_VALUE) {
            throw argument(operands, "the output's size must be < 2^31 in dimension " + (i + 2) + ", got " + size,
                    "use a smaller stride or dilation");
        }
        return Math.max(0, size);
    }

    private static TensorException argument(List<Spec> operands, String relation, String remedy) {
        return new TensorException(TensorException.Problem.ARGUMENT, "convTranspose", operands, relation, remedy);
    }

    private static Geometry geometry(int rank, int[] stride, int[] padding, int[] dilation, int groups) {
        if (stride.length != rank || padding.length != rank || dilation.length != rank) {
            throw TensorException.argument("conv" + rank + "d", "needs " + rank + " values for each option, got stride "
                    + Arrays.toString(stride) + ", padding " + Arrays.toString(padding) + ", dilation "
                    + Arrays.toString(dilation), "give one value per spatial dimension");
        }
        return new Geometry(stride, padding, dilation, groups);
    }
}
