package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Normalization;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link Normalization} operations. */
final class NormalizationKernels {
    private NormalizationKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Normalization op, Tensor[] inputs, Spec[] outputs) {
        if (inputs[0].dtype() != DType.F32 || inputs[0].count() == 0) {
            return null;
        }
        return switch (op) {
            case Normalization.BatchNorm b -> BatchNormKernels.forward(b, inputs, outputs);
            case Normalization.BatchNormGradient b -> BatchNormKernels.backward(b, inputs, outputs);
            case Normalization.LayerNorm _,
                    Normalization.LayerNormGradient _ -> LayerNormKernels.run(op, inputs, outputs);
        };
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called. */
    static @Nullable Runnable prepare(Normalization op, Tensor[] inputs, Tensor[] results) {
        return switch (op) {
            case Normalization.BatchNorm _,
                    Normalization.BatchNormGradient _ -> BatchNormKernels.prepare(op, inputs, results);
            case Normalization.LayerNorm _,
                    Normalization.LayerNormGradient _ -> LayerNormKernels.prepare(op, inputs, results);
        };
    }
}
