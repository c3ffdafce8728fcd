package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.SoftmaxRows;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.CrossEntropy;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Kernels of {@link CrossEntropy} operations on f32. All targets are checked before the first row is computed. */
final class CrossEntropyKernels {
    private CrossEntropyKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(CrossEntropy op, Tensor[] inputs, Spec[] outputs) {
        return run(op, inputs, outputs, RowLoops.FASTEST.softmax());
    }

    static Tensor @Nullable [] run(CrossEntropy op, Tensor[] in, Spec[] outputs, SoftmaxRows rows) {
        if (in[0].dtype() != DType.F32 || in[1].dtype().isFloating() && in[1].dtype() != DType.F32
                || in[0].count() == 0 || outputs[0].shape().count() == 0) {
            return null;
        }
        return switch (op) {
            case CrossEntropy.Loss o -> loss(o, in[0], in[1], outputs, rows);
            case CrossEntropy.Gradient o -> gradient(o, in, outputs[0], rows);
        };
    }

    /** Prepares what {@link #run} does; {@code null} if there is no kernel, or an operand has to be copied. */
    static @Nullable Runnable prepare(CrossEntropy op, Tensor[] in, Tensor[] results) {
        boolean fits = in[0].dtype() == DType.F32 && (!in[1].dtype().isFloating() || in[1].dtype() == DType.F32)
                && in[0].count() > 0 && results[0].count() > 0;
        SoftmaxRows rows = RowLoops.FASTEST.softmax();
        return !fits ? null : switch (op) {
            case CrossEntropy.Loss o -> in[0].isContiguous()
                    ? checked(op, in[1], o.ignored(), in[0], loss(o, in[0], in[1], results, rows)) : null;
            case CrossEntropy.Gradient o -> in[1].isContiguous() && in[2].isContiguous()
                    ? checked(op, in[3], o.ignored(), in[1], gradient(o, in, in[1], in[2], results[0], rows)) : null;
        };
    }

    private static Runnable checked(CrossEntropy op, Tensor target, long ignored, Tensor matrix, Runnable work) {
        return () -> {
            check(op, target, ignored, matrix);
            work.run();
        };
    }

    private static Tensor[] loss(CrossEntropy.Loss op, Tensor logits, Tensor target, Spec[] outputs, SoftmaxRows rows) {
        check(op, target, op.ignored(), logits);
        Tensor x = Layout.dense(logits);
        Tensor[] results = {Storage.allocate(outputs[0]), Storage.allocate(outputs[1])};
        loss(op, x, target, results, rows).run();
        Layout.release(x, logits);
        return results;
    }

    private static Runnable loss(CrossEntropy.Loss op, Tensor x, Tensor target, Tensor[] results, SoftmaxRows rows) {
        int classes = Math.toIntExact(x.size(1));
        long from = x.address();
        long loss = results[0].address();
        long row = results[1].address();
        double even = op.smoothing() / classes;
        double sharp = 1 - op.smoothing();
        return new RangeWork(target.count(), SoftmaxKernels.grain(classes)) {
            @Override
            public void run(long first, long end) {
                rows.logSums(from + 4 * first * classes, row + 8 * first, Math.toIntExact(end - first), classes);
                for (long r = first; r < end; r++) {
                    long wanted = wanted(op, target, r, op.ignored(), x);
                    long at = from + 4 * r * classes;
                    float max = getFloat(row + 8 * r);
                    float log = getFloat(row + 8 * r + 4);
                    double l = 0;
                    if (wanted != op.ignored()) {
                        l -= sharp == 0 ? 0 : sharp * (getFloat(at + 4 * wanted) - max - log);
                        l -= even == 0 ? 0 : even * (rows.distances(at, max, classes) - (double) classes * log);
                    }
                    putFloat(loss + 4 * r, (float) l);
                }
            }
        };
    }

    private static Tensor[] gradient(CrossEntropy.Gradient op, Tensor[] in, Spec output, SoftmaxRows rows) {
        check(op, in[3], op.ignored(), in[1]);
        Tensor x = Layout.dense(in[1]);
        Tensor kept = Layout.dense(in[2]);
        Tensor result = Storage.allocate(output);
        gradient(op, in, x, kept, result, rows).run();
        Layout.release(x, in[1]);
        Layout.release(kept, in[2]);
        return new Tensor[] {result};
    }

    private static Runnable gradient(CrossEntropy.Gradient op, Tensor[] in, Tensor x, Tensor kept, Tensor result,
            SoftmaxRows rows) {
        Tensor g = in[0];
        Tensor target = in[3];
        int classes = Math.toIntExact(x.size(1));
        long from = x.address();
        long row = kept.address();
        long dx = result.address();
        long scale = g.address();
        long scaleStride = 4 * g.stride(0);
        double even = op.smoothing() / classes;
        return new RangeWork(target.count(), SoftmaxKernels.grain(classes)) {
            @Override
            public void run(long first, long end) {
                rows.expGradient(from + 4 * first * classes, row + 8 * first, (float) even, scale + first * scaleStride,
                        scaleStride, dx + 4 * first * classes, Math.toIntExact(end - first), classes);
                for (long r = first; r < end; r++) {
                    long wanted = wanted(op, target, r, op.ignored(), x);
                    if (wanted == op.ignored()) {
                        ALL.asSlice(dx + 4 * r * classes, 4L * classes).fill((byte) 0);
                    } else {
                        long at = 4 * (r * classes + wanted);
                        double p = StrictMath.exp(
                                getFloat(from + at) - getFloat(row + 8 * r) - getFloat(row + 8 * r + 4));
                        putFloat(dx + at,
                                (float) ((p - even - (1 - op.smoothing())) * getFloat(scale + r * scaleStride)));
                    }
                }
            }
        };
    }

    private static void check(CrossEntropy op, Tensor target, long ignored, Tensor matrix) {
        for (long row = 0; row < target.count(); row++) {
            wanted(op, target, row, ignored, matrix);
        }
    }

    /** Returns the target of a row. Each read is checked: another thread may change the targets meanwhile. */
    private static long wanted(CrossEntropy op, Tensor target, long row, long ignored, Tensor matrix) {
        long classes = matrix.size(1);
        long wanted = HostMemory.getLong(target.dtype(),
                target.address() + row * target.stride(0) * target.dtype().bytes());
        if ((wanted != ignored || ignored == Losses.NONE_IGNORED) && (wanted < 0 || wanted >= classes)) {
            throw new TensorException(TensorException.Problem.INDEX, op.name(),
                    List.of(matrix.spec(), target.spec()), "the target of row " + row + ", class " + wanted
                    + ", must lie between 0 and " + (classes - 1), "correct it or declare that class ignored");
        }
        return wanted;
    }
}
