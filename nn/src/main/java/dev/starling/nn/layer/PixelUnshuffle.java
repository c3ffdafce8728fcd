package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Moves positions to channels, the inverse of {@link PixelShuffle}: {@code [N, C, H·r, W·r]} to
 * {@code [N, C·r², H, W]}.
 *
 * @param factor r
 */
public record PixelUnshuffle(int factor) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        long r = factor;
        if (r < 1 || x.rank() != 4 || x.size(2) % r != 0 || x.size(3) % r != 0) {
            throw new TensorException(TensorException.Problem.SHAPE, "pixelUnshuffle", List.of(x.spec()),
                    "x must be [N, C, H, W] with height and width divisible by " + r, "crop or pad the image");
        }
        long h = x.size(2) / r;
        long w = x.size(3) / r;
        return x.reshape(x.size(0), x.size(1), h, r, w, r).permute(0, 1, 3, 5, 2, 4)
                .reshape(x.size(0), x.size(1) * r * r, h, w);
    }
}
