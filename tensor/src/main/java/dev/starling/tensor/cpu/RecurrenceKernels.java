package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.op.Recurrence;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Recurrence} in f32. */
final class RecurrenceKernels {
    private RecurrenceKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Recurrence op, Tensor[] inputs, Spec[] outputs) {
        Recurrence.Operands<Tensor> given = op.operands(inputs);
        if (inputs[0].dtype() != DType.F32 || !OneDnn.supports(ElementType.F32) || given.x().count() == 0
                || given.h().count() == 0) {
            return null;
        }
        Tensor[] dense = new Tensor[inputs.length];
        for (int i = 0; i < dense.length; i++) {
            dense[i] = Layout.dense(inputs[i]);
        }
        Tensor[] results = new Tensor[outputs.length];
        for (int i = 0; i < results.length; i++) {
            results[i] = Storage.allocate(outputs[i]);
        }
        try (RecurrentSequence.Pass pass = pass(op, dense, results)) {
            pass.run();
        }
        for (int i = 0; i < dense.length; i++) {
            Layout.release(dense[i], inputs[i]);
        }
        return results;
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called, as for sequences of different lengths. */
    static @Nullable Runnable prepare(Recurrence op, Tensor[] inputs, Tensor[] results) {
        Recurrence.Operands<Tensor> given = op.operands(inputs);
        if (inputs[0].dtype() != DType.F32 || !OneDnn.supports(ElementType.F32) || given.x().count() == 0
                || given.h().count() == 0 || given.lengths() != null) {
            return null;
        }
        for (Tensor x : inputs) {
            if (!x.isContiguous()) {
                return null;
            }
        }
        return pass(op, inputs, results);
    }

    private static RecurrentSequence.Pass pass(Recurrence op, Tensor[] dense, Tensor[] results) {
        return switch (op) {
            case Recurrence.Forward f -> new RecurrentPass(f, dense, results);
            case Recurrence.Gradient g -> new RecurrentGradientPass(g, dense, results);
        };
    }
}
