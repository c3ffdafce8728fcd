package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Resizes images by a factor: {@code [N, C, H, W]} to {@code [N, C, H·factor, W·factor]}. Pixels are squares whose
 * centres are half a pixel from the border, as with PyTorch's {@code align_corners=False}.
 *
 * @param factor at least 1
 * @param method how pixels between centres are computed
 */
public record Upsample(int factor, Method method) implements Layer {
    /** The slope of the cubic polynomial at a distance of 1. */
    private static final double SLOPE = -0.75;

    /** How a pixel of the result follows from those of the image. */
    public enum Method {
        /** The nearest pixel. */
        NEAREST,
        /** A mean of the four nearest pixels, weighted by their distances. */
        BILINEAR,
        /** A cubic polynomial through the sixteen nearest pixels, with the slope -0.75. (Keys, 1981) */
        BICUBIC
    }

    /** Checks the factor. */
    public Upsample {
        if (factor < 1) {
            throw TensorException.argument("upsample", "the factor must be at least 1, got " + factor,
                    "use a pooling layer to shrink an image");
        }
    }

    /** Returns a layer that repeats each pixel. */
    public static Upsample nearest(int factor) {
        return new Upsample(factor, Method.NEAREST);
    }

    /** Returns a layer that interpolates between pixels. */
    public static Upsample bilinear(int factor) {
        return new Upsample(factor, Method.BILINEAR);
    }

    /** Returns a layer that interpolates smoothly between pixels; results may exceed the range of the pixels. */
    public static Upsample bicubic(int factor) {
        return new Upsample(factor, Method.BICUBIC);
    }

    @Override
    public Tensor forward(Tensor x) {
        if (x.rank() != 4) {
            throw new TensorException(TensorException.Problem.SHAPE, "upsample", List.of(x.spec()),
                    "x must be [N, C, H, W]", "reshape it");
        }
        return along(along(x, 2), 3);
    }

    private Tensor along(Tensor x, int axis) {
        long in = x.size(axis);
        if (factor == 1 || in == 0) {
            return x;
        }
        if (method == Method.NEAREST) {
            return x.repeat(axis, factor);
        }
        // The centres of the result's pixels, in pixels of the image from the centre of its first.
        DType type = x.dtype() == DType.F64 ? DType.F64 : DType.F32;
        Tensor centres = Tensor.arange(new Spec(type, Shape.of(in * factor), x.device()), 0.5 / factor - 0.5,
                1.0 / factor);
        long[] shape = {1, 1, 1, 1};
        shape[axis] = in * factor;
        if (method == Method.BICUBIC) {
            return cubic(x, axis, centres, shape);
        }
        centres = centres.clamp(0, in - 1);
        Tensor lower = centres.floor();
        Tensor first = lower.to(DType.I64);
        Tensor second = lower.add(1).clamp(0, in - 1).to(DType.I64);
        Tensor share = centres.sub(lower).reshape(shape).to(x.dtype());
        Tensor y = x.take(axis, first);
        return y.add(x.take(axis, second).sub(y).mul(share));
    }

    private static Tensor cubic(Tensor x, int axis, Tensor centres, long... shape) {
        Tensor lower = centres.floor();
        Tensor after = centres.sub(lower);
        Tensor before = after.neg().add(1);
        Tensor[] weights = {far(after.add(1)), near(after), near(before), far(before.add(1))};
        for (int k = 0; k < weights.length; k++) {
            Tensor place = lower.add(k - 1).clamp(0, x.size(axis) - 1).to(DType.I64);
            weights[k] = x.take(axis, place).mul(weights[k].reshape(shape).to(x.dtype()));
        }
        return weights[0].add(weights[1]).add(weights[2].add(weights[3]));
    }

    /** Returns the weight of a pixel at a distance of at most 1: {@code (a + 2)d³ - (a + 3)d² + 1}. */
    private static Tensor near(Tensor d) {
        return d.mul(SLOPE + 2).sub(SLOPE + 3).mul(d.square()).add(1);
    }

    /** Returns the weight of a pixel at a distance between 1 and 2: {@code ad³ - 5ad² + 8ad - 4a}. */
    private static Tensor far(Tensor d) {
        return d.sub(5).mul(d).add(8).mul(d).sub(4).mul(SLOPE);
    }
}
