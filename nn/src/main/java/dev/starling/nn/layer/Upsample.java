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
    /** How a pixel of the result follows from those of the image. */
    public enum Method {
        /** The nearest pixel. */
        NEAREST,
        /** A mean of the four nearest pixels, weighted by their distances. */
        BILINEAR
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
        Tensor centres = Tensor.arange(new Spec(DType.F32, Shape.of(in * factor), x.device()), 0.5 / factor - 0.5,
                1.0 / factor).clamp(0, in - 1);
        Tensor lower = centres.floor();
        Tensor first = lower.to(DType.I64);
        Tensor second = lower.add(1).clamp(0, in - 1).to(DType.I64);
        long[] shape = {1, 1, 1, 1};
        shape[axis] = in * factor;
        Tensor share = centres.sub(lower).reshape(shape).to(x.dtype());
        Tensor y = x.take(axis, first);
        return y.add(x.take(axis, second).sub(y).mul(share));
    }
}
