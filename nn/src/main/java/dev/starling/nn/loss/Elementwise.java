package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.BinaryOperator;

/**
 * The mean of a function of each element of result and target.
 *
 * @param name name of the loss
 * @param function the losses of the elements
 */
record Elementwise(String name, BinaryOperator<Tensor> function) implements Loss {
    @Override
    public Tensor of(Tensor result, Tensor target) {
        return elements(result, target).mean();
    }

    @Override
    public Tensor rows(Tensor result, Tensor target) {
        return RowLoss.means(elements(result, target));
    }

    @Override
    public double divisor(Tensor result, Tensor target) {
        return target.count();
    }

    private Tensor elements(Tensor result, Tensor target) {
        requireSame(name, result, target);
        Tensor x = wide(result);
        return function.apply(x, target.to(x.dtype()));
    }

    /** Returns a tensor in f32 if it has 16 bits, whose squares and sums may be 0 or infinite in f16. */
    static Tensor wide(Tensor x) {
        return x.dtype().bytes() == 2 ? x.to(DType.F32) : x;
    }

    static void requireFinite(String loss, String what, double value) {
        if (!Double.isFinite(value)) {
            throw TensorException.argument(loss, "the " + what + " must be finite, got " + value, "correct it");
        }
    }

    static void requireSame(String loss, Tensor result, Tensor target) {
        if (!result.shape().equals(target.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, loss, List.of(result.spec(), target.spec()),
                    "result and target must have the same shape", "reshape or expand one; losses do not broadcast");
        }
    }

    @Override
    public String toString() {
        return name;
    }
}
