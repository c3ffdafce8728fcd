package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Resizes images by a factor: {@code [N, C, H, W]} to {@code [N, C, H·factor, W·factor]}. Pixels are squares whose
 * centres are half a pixel from the border, as with PyTorch's {@code align_corners=False}. Integers between which a
 * layer interpolates are converted to the type of the {@link Precision}.
 *
 * @param factor at least 1
 * @param method how pixels between centres are computed
 */
public record Upsample(int factor, Method method) implements Layer {
    /** How a pixel of the result follows from those of the image. */
    public enum Method {
        /**
         * The pixel that contains the upper left corner of the result's pixel, as PyTorch's {@code nearest}: the
         * nearest pixel, if the image grows by a whole factor.
         */
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
        // The shares of pixels are not integers.
        Tensor pixels = method == Method.NEAREST || x.dtype().isFloating() ? x : x.to(Precision.current().type());
        return Interpolation.along(Interpolation.along(pixels, 2, x.size(2) * factor, method), 3, x.size(3) * factor,
                method);
    }
}
