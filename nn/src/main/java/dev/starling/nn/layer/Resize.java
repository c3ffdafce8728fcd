package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Resizes images of any size by linear interpolation: {@code [N, C, H, W]} to {@code [N, C, height, width]}. Pixels are
 * squares whose centres are half a pixel from the border, as with PyTorch's {@code align_corners=False}.
 *
 * @param height rows of the result
 * @param width columns of the result
 * @param antialias whether a pixel of a smaller result is a weighted mean of all pixels that it covers; otherwise of
 *     the four around its centre
 */
public record Resize(int height, int width, boolean antialias) implements Layer {
    /** Checks the size. */
    public Resize {
        if (height < 1 || width < 1) {
            throw TensorException.argument("resize", "height and width must be at least 1, got " + height + " and "
                    + width, "give the size of the result");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        if (x.rank() != 4 || x.size(2) < 1 || x.size(3) < 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "resize", List.of(x.spec()),
                    "x must be [N, C, H, W] with H and W above 0", "reshape it");
        }
        Tensor pixels = x.dtype().isFloating() ? x : x.to(Precision.current().type());
        return weights(height, pixels, 2).matmul(pixels).matmul(weights(width, pixels, 3).transpose(0, 1));
    }

    /** Returns the weights {@code [to, from]} of the pixels in a dimension. */
    private Tensor weights(int to, Tensor x, int axis) {
        long from = x.size(axis);
        double ratio = (double) from / to;
        double support = antialias ? Math.max(1, ratio) : 1;
        DType type = x.dtype() == DType.F64 ? DType.F64 : DType.F32;
        Tensor centres = Tensor.arange(new Spec(type, Shape.of(to), x.device()), 0.5 * ratio - 0.5, ratio);
        Tensor distance = centres.unsqueeze(1).sub(Tensor.arange(new Spec(type, Shape.of(from), x.device()), 0, 1))
                .abs();
        Tensor weights = distance.div(support).neg().add(1).relu();
        // Outside the border there is nothing, so the weights of the pixels inside need not add up to 1.
        return weights.div(weights.sum(true, 1)).to(x.dtype());
    }
}
