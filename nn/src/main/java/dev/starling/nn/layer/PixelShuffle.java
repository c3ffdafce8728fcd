package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Moves channels to positions: {@code [N, C·r², H, W]} to {@code [N, C, H·r, W·r]}. (Shi et al., 2016)
 *
 * @param factor r
 */
public record PixelShuffle(int factor) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        long r = factor;
        if (r < 1 || x.rank() != 4 || x.size(1) % (r * r) != 0) {
            throw new TensorException(TensorException.Problem.SHAPE, "pixelShuffle", List.of(x.spec()),
                    "x must be [N, C·" + r * r + ", H, W]", "give the layer before it that many channels");
        }
        long c = x.size(1) / (r * r);
        return x.reshape(x.size(0), c, r, r, x.size(2), x.size(3)).permute(0, 1, 4, 2, 5, 3)
                .reshape(x.size(0), c, x.size(2) * r, x.size(3) * r);
    }
}
