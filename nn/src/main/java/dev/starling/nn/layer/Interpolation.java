package dev.starling.nn.layer;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/** Resizes one dimension of images. Pixels are squares whose centres are half a pixel from the border. */
final class Interpolation {
    /** The slope of the cubic polynomial at a distance of 1, and with antialiasing. */
    private static final double SLOPE = -0.75;
    private static final double SMOOTH_SLOPE = -0.5;

    private Interpolation() {
    }

    /** Computes {@code to} pixels in a dimension from those around their centres. */
    static Tensor along(Tensor x, int axis, long to, Upsample.Method method) {
        long from = x.size(axis);
        if (to == from || from == 0) {
            return x;
        }
        if (method == Upsample.Method.NEAREST) {
            return to % from == 0 ? x.repeat(axis, Math.toIntExact(to / from)) : x.take(axis, Tensor.arange(new Spec(
                    DType.F64, Shape.of(to), x.device()), 0, 1).mul(from).div(to).floor().to(DType.I64));
        }
        Tensor centres = centres(x, from, to);
        long[] shape = new long[x.rank()];
        Arrays.fill(shape, 1);
        shape[axis] = to;
        if (method == Upsample.Method.BICUBIC) {
            return cubic(x, axis, centres, shape);
        }
        centres = centres.clamp(0, from - 1);
        Tensor lower = centres.floor();
        Tensor first = lower.to(DType.I64);
        Tensor second = lower.add(1).clamp(0, from - 1).to(DType.I64);
        Tensor share = centres.sub(lower).reshape(shape).to(x.dtype());
        Tensor y = x.take(axis, first);
        return y.add(x.take(axis, second).sub(y).mul(share));
    }

    /** Returns the centres of the result's pixels, in pixels of the image from the centre of its first. */
    private static Tensor centres(Tensor x, long from, long to) {
        double ratio = (double) from / to;
        return Tensor.arange(new Spec(type(x), Shape.of(to), x.device()), 0.5 * ratio - 0.5, ratio);
    }

    private static DType type(Tensor x) {
        return x.dtype() == DType.F64 ? DType.F64 : DType.F32;
    }

    private static Tensor cubic(Tensor x, int axis, Tensor centres, long... shape) {
        Tensor lower = centres.floor();
        Tensor after = centres.sub(lower);
        Tensor before = after.neg().add(1);
        Tensor[] weights = {far(after.add(1), SLOPE), near(after, SLOPE), near(before, SLOPE),
            far(before.add(1), SLOPE)};
        for (int k = 0; k < weights.length; k++) {
            Tensor place = lower.add(k - 1).clamp(0, x.size(axis) - 1).to(DType.I64);
            weights[k] = x.take(axis, place).mul(weights[k].reshape(shape).to(x.dtype()));
        }
        return weights[0].add(weights[1]).add(weights[2].add(weights[3]));
    }

    /** Returns the weights {@code [to, from]} with which pixels of a result are means of all that they cover. */
    static Tensor means(Tensor x, int axis, long to, Upsample.Method method) {
        long from = x.size(axis);
        Tensor distance = centres(x, from, to).unsqueeze(1).sub(Tensor.arange(new Spec(type(x), Shape.of(from),
                x.device()), 0, 1)).abs().div(Math.max(1, (double) from / to));
        Tensor weights = distance.neg().add(1).relu();
        if (method == Upsample.Method.BICUBIC) {
            Tensor outer = distance.lt(2).where(far(distance, SMOOTH_SLOPE), distance.zerosLike());
            weights = distance.lt(1).where(near(distance, SMOOTH_SLOPE), outer);
        }
        // Outside the border there is nothing, so the weights of the pixels inside need not add up to 1.
        return weights.div(weights.sum(true, 1)).to(x.dtype());
    }

    /** Returns the weight of a pixel at a distance of at most 1: {@code (a + 2)d³ - (a + 3)d² + 1}. */
    private static Tensor near(Tensor d, double a) {
        return d.mul(a + 2).sub(a + 3).mul(d.square()).add(1);
    }

    /** Returns the weight of a pixel at a distance between 1 and 2: {@code ad³ - 5ad² + 8ad - 4a}. */
    private static Tensor far(Tensor d, double a) {
        return d.sub(5).mul(d).add(8).mul(d).sub(4).mul(a);
    }
}
