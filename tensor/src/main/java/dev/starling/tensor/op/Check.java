package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.TensorException.Problem;
import java.util.Arrays;
import java.util.List;

/** The checks of {@code infer}, and their errors for messages that are composed only if a check fails. */
final class Check {
    private Check() {
    }

    static void shape(boolean holds, Op op, String relation, String remedy, Spec... operands) {
        if (!holds) {
            throw shape(op, relation, remedy, operands);
        }
    }

    static TensorException shape(Op op, String relation, String remedy, Spec... operands) {
        return new TensorException(Problem.SHAPE, op.name(), List.of(operands), relation, remedy);
    }

    static void dtype(boolean holds, Op op, String relation, String remedy, Spec... operands) {
        if (!holds) {
            throw new TensorException(Problem.DTYPE, op.name(), List.of(operands), relation, remedy);
        }
    }

    static void argument(boolean holds, Op op, String relation, String remedy, Spec... operands) {
        if (!holds) {
            throw argument(op, relation, remedy, operands);
        }
    }

    static TensorException argument(Op op, String relation, String remedy, Spec... operands) {
        return new TensorException(Problem.ARGUMENT, op.name(), List.of(operands), relation, remedy);
    }

    /** Returns one value for each spatial dimension, after a check that there are 1 to 3. */
    static int[] spatial(String op, int rank, int value) {
        if (rank < 1 || rank > 3) {
            throw TensorException.argument(op, "the number of spatial dimensions must be 1 to 3, got " + rank,
                    "use 1 to 3 spatial dimensions");
        }
        int[] values = new int[rank];
        Arrays.fill(values, value);
        return values;
    }

    static void floating(Op op, Spec... operands) {
        for (Spec s : operands) {
            dtype(s.dtype().isFloating(), op, "needs a floating type", "cast with to(DType)", operands);
        }
    }

    static void sameType(Op op, Spec... operands) {
        for (Spec s : operands) {
            dtype(s.dtype() == operands[0].dtype(), op, "operands must have the same type",
                    "cast with to(DType)", operands);
        }
    }

    /** Requires {@code other} to have {@code x}'s type or, beside a 16-bit {@code x}, f32. */
    static void wideOr(Op op, Spec x, Spec other, Spec... operands) {
        dtype(other.dtype() == x.dtype() || other.dtype() == DType.F32 && x.dtype().bytes() == 2, op,
                "weights must be of x's type or, beside a 16-bit x, f32", "cast with to(DType)", operands);
    }

    static void index(Op op, Spec index, Spec... operands) {
        dtype(index.dtype() == DType.I64 || index.dtype() == DType.I32, op, "indices must be i64 or i32",
                "cast with to(DType.I64)", operands);
    }

    static void rank(Op op, Spec s, int rank, Spec... operands) {
        if (s.shape().rank() != rank) {
            throw shape(op, "needs rank " + rank + ", got " + s.shape().rank(), "reshape it", operands);
        }
    }

    /** Requires a valid dimension, counted from the front. */
    static void axis(Op op, int axis, Spec x, Spec... operands) {
        if (axis < 0 || axis >= x.shape().rank()) {
            throw argument(op, "axis " + axis + " must be from 0 to " + (x.shape().rank() - 1),
                    "count dimensions from the front", operands);
        }
    }

    /** Requires what kernels count with an {@code int} to have fewer than 2^31 elements. */
    static void counted(Op op, String what, long count, Spec... operands) {
        if (count > Integer.MAX_VALUE) {
            throw shape(op, what + " must have fewer than 2^31 elements, got " + count, "divide it into several",
                    operands);
        }
    }

    /** Requires a valid summand that keeps a variance from being 0. */
    static void epsilon(Op op, double epsilon, Spec... operands) {
        if (!(epsilon >= 0 && epsilon < Double.POSITIVE_INFINITY)) {
            throw argument(op, "epsilon must be >= 0 and finite, got " + epsilon, "use 1e-5, for example", operands);
        }
    }

    static Shape broadcast(Op op, Spec a, Spec b) {
        Shape shape = Shape.broadcast(a.shape(), b.shape());
        if (shape == null) {
            throw new TensorException(Problem.SHAPE, op.name(), List.of(a, b), "shapes must broadcast",
                    "reshape one so that sizes agree or are 1");
        }
        return shape;
    }

    /** Returns the leading dimensions of a result, to which those of two operands broadcast. */
    static Shape lead(Op op, Shape a, Shape b, Spec... operands) {
        Shape shape = Shape.broadcast(a, b);
        if (shape == null) {
            throw new TensorException(Problem.SHAPE, op.name(), List.of(operands),
                    "leading dimensions must broadcast", "reshape an operand");
        }
        return shape;
    }

    static void operands(Op op, Spec[] inputs, int min, int max) {
        if (inputs.length >= min && inputs.length <= max) {
            return;
        }
        throw argument(op, "takes " + min + (min == max ? "" : " to " + max) + " operands, got " + inputs.length,
                "pass the operands that its Javadoc lists", inputs);
    }
}
