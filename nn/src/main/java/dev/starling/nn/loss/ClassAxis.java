package dev.starling.nn.loss;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/** Finds the dimension of the classes, which the logits have and the targets have not. */
final class ClassAxis {
    private static final String SECOND = "logits are [N, C, *d] with targets [N, *d], or [N, *d, C] with targets "
            + "[N, *d]";

    private ClassAxis() {
    }

    /** See {@link Loss#classAxis}. */
    static int of(String op, Tensor logits, Tensor target) {
        Shape shape = logits.shape();
        int last = logits.rank() - 1;
        if (target.dtype().isFloating()) {
            throw problem(TensorException.Problem.DTYPE, op, logits, target, "the targets must be the indices of "
                    + "classes, which are integers", "convert them with to(DType.I64), or store them as I64 fields");
        }
        if (last >= 1) {
            boolean second = shape.without(1).equals(target.shape());
            boolean end = last > 1 && shape.without(last).equals(target.shape());
            if (second && end) {
                throw problem(TensorException.Problem.SHAPE, op, logits, target, "the classes may be in dimension 1 or "
                        + "in the last one: both fit these targets", "name the dimension: "
                        + "Loss.crossEntropy().classesIn(1) and Metric.accuracy(1), or -1 for the last dimension");
            }
            if (second || end) {
                return second ? 1 : last;
            }
        }
        throw problem(TensorException.Problem.SHAPE, op, logits, target, "expected one class index for each row or "
                + "position: " + SECOND, remedy(shape, target));
    }

    private static String remedy(Shape logits, Tensor target) {
        Shape shape = target.shape();
        if (shape.equals(logits)) {
            return "use class indices instead of one-hot rows: target.argmax(1)";
        }
        if (shape.rank() > 0 && shape.dim(-1) == 1 && (logits.rank() == shape.rank()
                && logits.without(1).equals(shape.without(shape.rank() - 1)))) {
            return "remove the last dimension of the targets with squeeze(-1), or declare the field without it";
        }
        return "compare the model's result with the field of the targets; a Permute or Flatten may be missing";
    }

    private static TensorException problem(TensorException.Problem problem, String op, Tensor logits, Tensor target,
            String relation, String remedy) {
        List<Spec> operands = List.of(logits.spec(), target.spec());
        return new TensorException(problem, op, operands, relation, remedy);
    }
}
