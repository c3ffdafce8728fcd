package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Resizes images of any size to one size: {@code [N, C, H, W]} to {@code [N, C, height, width]}. Pixels are squares
 * whose centres are half a pixel from the border, as with PyTorch's {@code align_corners=False}.
 *
 * @param height rows of the result
 * @param width columns of the result
 * @param method how a pixel of the result is computed
 * @param antialias whether a pixel of a smaller result is a weighted mean of all pixels that it covers; otherwise of
 *     those around its centre. Not for the nearest pixel. The slope of the cubic polynomial is then -0.5, as PyTorch's
 */
public record Resize(int height, int width, Upsample.Method method, boolean antialias) implements Layer {
    /** Checks the settings. */
    public Resize {
        if (height < 1 || width < 1) {
            throw TensorException.argument("resize", "height and width must be at least 1, got " + height + " and "
                    + width, "give the size of the result");
        }
        if (antialias && method == Upsample.Method.NEAREST) {
            throw TensorException.argument("resize", "the nearest pixel is no mean of others",
                    "use antialias with BILINEAR or BICUBIC");
        }
    }

    /** Creates a layer with linear interpolation. */
    public Resize(int height, int width, boolean antialias) {
        this(height, width, Upsample.Method.BILINEAR, antialias);
    }

    @Override
    public Tensor forward(Tensor x) {
        if (x.rank() != 4 || x.size(2) < 1 || x.size(3) < 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "resize", List.of(x.spec()),
                    "x must be [N, C, H, W] with H and W above 0", "reshape it");
        }
        Tensor pixels = x.dtype().isFloating() ? x : x.to(Precision.current().type());
        return antialias ? Interpolation.means(pixels, 2, height, method).matmul(pixels)
                .matmul(Interpolation.means(pixels, 3, width, method).transpose(0, 1))
                : Interpolation.along(Interpolation.along(pixels, 2, height, method), 3, width, method);
    }
}
