package dev.starling.tensor.cpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.Reorders;
import dev.starling.tensor.host.HostBackend;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Softmax;
import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.reference.ReferenceKernels;
import dev.starling.tensor.spi.Chain;
import org.jspecify.annotations.Nullable;

/**
 * The CPU. Each family of operations has its kernels in a class of its own, which returns {@code null} for types and
 * layouts without a kernel; these run {@link Widened} or else by the reference kernels, on the same memory.
 */
final class CpuBackend implements HostBackend {
    @Override
    public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
        Tensor[] results = runKernel(op, inputs, outputs);
        results = results != null ? results : Widened.run(op, inputs, outputs);
        return results != null ? results : ReferenceKernels.run(op, inputs, outputs);
    }

    /**
     * Runs one of this backend's own kernels and returns its outputs, or {@code null} if there is none for the
     * operands.
     */
    static Tensor @Nullable [] runKernel(Op op, Tensor[] inputs, Spec[] outputs) {
        return switch (op) {
            case Elementwise e -> ElementwiseKernels.run(e, inputs, outputs[0]);
            case Reduction r -> ReductionKernels.run(r, inputs[0], outputs[0]);
            case Contraction c -> ContractionKernels.run(c, inputs, outputs);
            case Convolution c -> ConvolutionKernels.run(c, inputs, outputs);
            case Pooling p -> PoolingKernels.run(p, inputs, outputs);
            case Normalization n -> NormalizationKernels.run(n, inputs, outputs);
            case Softmax s -> SoftmaxKernels.run(s, inputs, outputs[0]);
            case Attention a -> AttentionKernels.run(a, inputs, outputs);
            case Recurrence r -> RecurrenceKernels.run(r, inputs, outputs);
            case CrossEntropy c -> CrossEntropyKernels.run(c, inputs, outputs);
            case Movement m -> CopyKernels.run(m, inputs, outputs[0]);
            case Selection s -> SelectionKernels.run(s, inputs, outputs[0]);
            case Fill f -> FillKernels.run(f, outputs[0]);
            case Random r -> RandomKernels.run(r, inputs, outputs[0]);
            case Update u -> UpdateKernels.run(u, inputs);
            case Scan _, Sorting _, View _, Transfer _ -> null;
        };
    }

    /** Prepares kernels that read their operands as they are; others are copied in each {@link #run}. */
    @Override
    public @Nullable Runnable prepare(Op op, Tensor[] inputs, Tensor[] results) {
        return switch (op) {
            case Elementwise e -> ElementwiseKernels.prepare(e, inputs, results[0]);
            case Reduction r -> ReductionKernels.prepare(r, inputs[0], results[0]);
            case Contraction c -> ContractionKernels.prepare(c, inputs, results);
            case Normalization n -> NormalizationKernels.prepare(n, inputs, results);
            case Attention a -> AttentionKernels.prepare(a, inputs, results);
            case CrossEntropy c -> CrossEntropyKernels.prepare(c, inputs, results);
            case Convolution c -> ConvolutionKernels.prepare(c, inputs, results);
            case Pooling p -> PoolingKernels.prepare(p, inputs, results);
            case Softmax s -> SoftmaxKernels.prepare(s, inputs, results[0]);
            case Movement m -> CopyKernels.prepare(m, inputs, results[0]);
            case Recurrence r -> RecurrenceKernels.prepare(r, inputs, results);
            case Selection _, Fill _, Random _, Scan _, Sorting _, View _, Transfer _, Update _ -> null;
        };
    }

    @Override
    public boolean isFinite(Tensor x) {
        return FiniteKernel.run(x);
    }

    @Override
    public long reorders() {
        return Reorders.total();
    }

    @Override
    public Chain.@Nullable Kernel fuse(Chain chain) {
        return ElementwiseKernels.fuse(chain);
    }
}
