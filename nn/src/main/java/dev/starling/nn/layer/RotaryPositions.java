package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Rotary positions of queries and keys: {@code [.., L, E]} to the same shape. The elements i and i + E/2 of the vector
 * at position p are rotated by the angle {@code p·base^(-2i/E)}, so that products of queries and keys depend on the
 * distance of their positions. (Su et al., RoFormer, 2021)
 *
 * @param base greater than 1, usually 10,000
 */
public record RotaryPositions(double base) implements Layer {
    /** Checks the base. */
    public RotaryPositions {
        if (!(base > 1 && base < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("rotary positions", "the base must be > 1 and finite, got " + base,
                    "10,000 is usual");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, 0);
    }

    /** Computes the same for vectors of which the first is at position {@code first}. */
    public Tensor forward(Tensor x, long first) {
        long width = x.rank() < 2 ? 0 : x.size(-1);
        if (width % 2 != 0 || width == 0) {
            throw new TensorException(TensorException.Problem.SHAPE, "rotary positions", List.of(x.spec()),
                    "x must be [.., L, E] with an even E", "use heads of an even width");
        }
        long half = width / 2;
        Tensor[] turned = Recorder.with(Recorder.NONE, () -> {
            // In double precision, because the angles of late positions are large.
            Tensor places = Tensor.arange(new Spec(DType.F64, Shape.of(x.size(-2)), x.device()), first, 1);
            Tensor speeds = Tensor.arange(new Spec(DType.F64, Shape.of(half), x.device()), 0,
                    -2 * Math.log(base) / width).exp();
            Tensor angles = places.unsqueeze(1).mul(speeds);
            return new Tensor[] {angles.cos().to(x.dtype()), angles.sin().to(x.dtype())};
        });
        Tensor a = x.narrow(-1, 0, half);
        Tensor b = x.narrow(-1, half, half);
        return Tensor.concat(-1, a.mul(turned[0]).sub(b.mul(turned[1])), b.mul(turned[0]).add(a.mul(turned[1])));
    }
}
