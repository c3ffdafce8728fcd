package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.cpu.rows.Rows;
import dev.starling.tensor.cpu.rows.SoftmaxRows;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.CrossEntropy;
import java.lang.foreign.ValueLayout;
import java.util.List;

/** Kernels of {@link CrossEntropy} operations on f32. Targets are checked before any row is computed. */
final class CrossEntropyKernels {
    private CrossEntropyKernels() {
    }

    /** Returns the results, or {@code null} where there is no kernel for these types and layouts. */
    static Tensor[] run(CrossEntropy op, Tensor[] inputs, Spec[] outputs) {
        return run(op, inputs, outputs, SoftmaxRows.FASTEST);
    }

    static Tensor[] run(CrossEntropy op, Tensor[] in, Spec[] outputs, SoftmaxRows rows) {
        if (in[0].dtype() != DType.F32 || outputs[0].dtype() != DType.F32 || in[0].count() == 0
                || outputs[0].shape().count() == 0) {
            return null;
        }
        return switch (op) {
            case CrossEntropy.Loss o -> loss(o, in[0], in[1], outputs, rows);
            case CrossEntropy.Gradient o -> gradient(o, in[0], in[1], in[2], outputs[0], rows);
        };
    }

    private static Tensor[] loss(CrossEntropy.Loss op, Tensor logits, Tensor target, Spec[] outputs, SoftmaxRows rows) {
        check(op, target, op.ignored(), logits);
        int classes = Math.toIntExact(logits.size(1));
        Tensor x = Layout.dense(logits);
        Tensor losses = Tensor.allocate(outputs[0]);
        Tensor logProbabilities = Tensor.allocate(outputs[1]);
        long from = x.address();
        long loss = losses.address();
        long logs = logProbabilities.address();
        double even = op.smoothing() / classes;
        double sharp = 1 - op.smoothing();
        Parallel.forRange(target.count(), SoftmaxKernels.grain(classes), (first, end) -> {
            rows.logSoftmax(from + 4 * first * classes, logs + 4 * first * classes, (int) (end - first), classes);
            for (long row = first; row < end; row++) {
                long wanted = wanted(target, row);
                long at = logs + 4 * row * classes;
                double l = 0;
                if (wanted != op.ignored()) {
                    l -= sharp == 0 ? 0 : sharp * get(at + 4 * wanted);
                    l -= even == 0 ? 0 : even * Rows.FASTEST.sum(at, classes);
                }
                set(loss + 4 * row, l);
            }
        });
        Layout.release(x, logits);
        return new Tensor[] {losses, logProbabilities};
    }

    private static Tensor[] gradient(CrossEntropy.Gradient op, Tensor g, Tensor logProbabilities, Tensor target,
            Spec output, SoftmaxRows rows) {
        check(op, target, op.ignored(), g, logProbabilities);
        int classes = Math.toIntExact(logProbabilities.size(1));
        Tensor dense = Layout.dense(logProbabilities);
        Tensor result = Tensor.allocate(output);
        long logs = dense.address();
        long dx = result.address();
        long scale = g.address();
        long scaleStride = 4 * g.strides()[0];
        double even = op.smoothing() / classes;
        Parallel.forRange(target.count(), SoftmaxKernels.grain(classes), (first, end) -> {
            rows.expGradient(logs + 4 * first * classes, (float) even, scale + first * scaleStride, scaleStride,
                    dx + 4 * first * classes, (int) (end - first), classes);
            for (long row = first; row < end; row++) {
                long wanted = wanted(target, row);
                if (wanted == op.ignored()) {
                    ALL.asSlice(dx + 4 * row * classes, 4L * classes).fill((byte) 0);
                } else {
                    long at = 4 * (row * classes + wanted);
                    double p = StrictMath.exp(get(logs + at));
                    set(dx + at, (p - even - (1 - op.smoothing())) * get(scale + row * scaleStride));
                }
            }
        });
        Layout.release(dense, logProbabilities);
        return new Tensor[] {result};
    }

    private static void check(CrossEntropy op, Tensor target, long ignored, Tensor... operands) {
        Tensor matrix = operands[operands.length - 1];
        long classes = matrix.size(1);
        for (long row = 0; row < target.count(); row++) {
            long wanted = wanted(target, row);
            if (wanted != ignored && (wanted < 0 || wanted >= classes)) {
                throw new TensorException(TensorException.Problem.INDEX, op.name(),
                        List.of(matrix.spec(), target.spec()), "the target of row " + row + ", class " + wanted
                        + ", must lie between 0 and " + (classes - 1), "correct it or name it as the ignored class");
            }
        }
    }

    private static long wanted(Tensor target, long row) {
        return HostMemory.getLong(target.dtype(),
                target.address() + row * target.strides()[0] * target.dtype().bytes());
    }

    private static float get(long address) {
        return ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, address);
    }

    private static void set(long address, double value) {
        ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, address, (float) value);
    }
}
