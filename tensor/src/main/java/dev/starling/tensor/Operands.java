package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Checks on operands before anything runs. */
final class Operands {
    private Operands() {
    }

    /** Checks the operands of an operation and returns the specs that it infers. */
    static Spec[] check(Op op, Tensor[] inputs) {
        Spec[] specs = ThreadState.current().specs(inputs.length);
        for (int i = 0; i < inputs.length; i++) {
            specs[i] = inputs[i].open(op).spec();
            requireDevice(op, specs[0], specs[i]);
        }
        return op.infer(specs);
    }

    /** Checks the operands of many updates, and their guard, which may be {@code null}. */
    static void check(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        if (ops.length != operands.length) {
            throw TensorException.argument("applyAll", "needs operands for each of " + ops.length + " operations, got "
                    + operands.length, "give one array of operands for each operation");
        }
        for (int i = 0; i < ops.length; i++) {
            check(ops[i], operands[i]);
            requireDevice(ops[i], operands[0][0].spec(), operands[i][0].spec());
        }
        if (guard != null && ops.length > 0) {
            requireDevice(ops[0], operands[0][0].spec(), guard.open(ops[0]).spec());
            if (guard.rank() != 0 || !guard.dtype().isFloating()) {
                throw new TensorException(TensorException.Problem.SHAPE, "applyAll", List.of(guard.spec()),
                        "the guard must be one floating number without dimensions", "reduce it, cast with to(DType)");
            }
        }
    }

    private static void requireDevice(Op op, Spec first, Spec other) {
        if (first.device() != other.device()) {
            throw new TensorException(TensorException.Problem.DEVICE, op.name(), List.of(first, other),
                    "operands must be on one device", "move one with to(device)");
        }
    }
}
