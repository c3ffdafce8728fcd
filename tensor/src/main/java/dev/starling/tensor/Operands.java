package dev.starling.tensor;

import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
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
            if (op instanceof Update update && update.changes(i)) {
                requireDistinct(op, inputs[i]);
            }
        }
        return op.infer(specs);
    }

    /** Refuses to change a tensor whose elements share memory: any of several writes to one could be the last. */
    private static void requireDistinct(Op op, Tensor x) {
        for (int d = 0; d < x.rank(); d++) {
            if (x.stride(d) == 0 && x.size(d) > 1 && x.count() > 0) {
                throw new TensorException(TensorException.Problem.ARGUMENT, op.name(), List.of(x.spec()),
                        "cannot change an expanded tensor: it repeats its elements along dimension " + d,
                        "change the tensor that was expanded, or a copy()");
            }
        }
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

    /**
     * Returns the operands of an update with copies of those that partly overlap one that it changes, so that it reads
     * their old elements. The caller passes them to {@link #release}.
     */
    static Tensor[] apart(Update op, Tensor[] inputs) {
        Tensor[] apart = inputs;
        for (int i = 0; i < inputs.length; i++) {
            for (int k = 0; k < inputs.length; k++) {
                if (op.changes(i) && !op.changes(k) && overlaps(apart[k], inputs[i])) {
                    apart = apart == inputs ? inputs.clone() : apart;
                    apart[k] = inputs[k].copy();
                }
            }
        }
        return apart;
    }

    static Tensor[][] apart(Update[] ops, Tensor[][] operands) {
        Tensor[][] apart = operands;
        for (int i = 0; i < ops.length; i++) {
            Tensor[] each = apart(ops[i], operands[i]);
            if (each != operands[i]) {
                apart = apart == operands ? operands.clone() : apart;
                apart[i] = each;
            }
        }
        return apart;
    }

    /** Frees the copies that {@link #apart} made, once the update has been carried out. */
    static void release(Tensor[] apart, Tensor[] inputs) {
        for (int i = 0; apart != inputs && i < inputs.length; i++) {
            if (apart[i] != inputs[i]) {
                apart[i].close();
            }
        }
    }

    /** Returns whether two tensors may have elements in common that are not at the same place in both. */
    private static boolean overlaps(Tensor a, Tensor b) {
        if (a.dtype() != b.dtype()) {
            // Offsets and strides, in elements, then say nothing about common bytes.
            return a.sharesMemoryWith(b);
        }
        return a.sharesMemoryWith(b)
                && !(a.offset() == b.offset() && Arrays.equals(a.sharedStrides(), b.sharedStrides()))
                && extreme(a, -1) <= extreme(b, 1) && extreme(b, -1) <= extreme(a, 1);
    }

    /** Returns the offset of the element that is furthest ahead in memory for {@code sign} 1, or behind for -1. */
    private static long extreme(Tensor x, int sign) {
        long offset = x.offset();
        for (int d = 0; d < x.rank(); d++) {
            long span = (x.size(d) - 1) * x.stride(d);
            offset += span * sign > 0 ? span : 0;
        }
        return offset;
    }

    private static void requireDevice(Op op, Spec first, Spec other) {
        if (first.device() != other.device()) {
            throw new TensorException(TensorException.Problem.DEVICE, op.name(), List.of(first, other),
                    "operands must be on one device", "move one with to(device)");
        }
    }
}
