package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Softmax;

/**
 * {@link Softmax} operations. If the elements of a line are neighbours in memory, threads share the line and keep it in
 * registers ({@link Rows}), so memory is read once. Very long lines are read twice: the maximum and the sum of
 * exponentials are computed together. If lines are neighbours, each has a thread, which reads its line twice.
 */
public final class SoftmaxKernels implements Kernels<Softmax> {
    private static final int MIN_COLUMNS = 32;

    private final Launcher launcher;

    private record SoftmaxKernel(boolean logarithms, int operands, DType type, boolean columns, Rows rows)
            implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("softmax", columns ? "columns" : "rows", rows.macros(type, "LOGARITHMS",
                    logarithms, "OPERANDS", operands));
        }
    }

    /** Makes the family's kernels for a device. */
    public SoftmaxKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Answer compute(Softmax op, Tensor[] in, Tensor[] out) {
        int axis = op.axis();
        long size = out[0].size(axis);
        long count = out[0].count();
        if (size > Layout.MAX_COUNT || count > 0 && count / size > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        if (count > 0) {
            boolean logarithms = op instanceof Softmax.Logarithms || op instanceof Softmax.LogarithmsGradient;
            launch(logarithms, axis, out[0], in);
        }
        return Answer.HANDLED;
    }

    private void launch(boolean logarithms, int axis, Tensor y, Tensor... inputs) {
        int n = inputs.length;
        Tensor[] operands = new Tensor[n + 1];
        operands[0] = y;
        System.arraycopy(inputs, 0, operands, 1, n);
        Tensor[] firsts = new Tensor[n + 1];
        for (int k = 0; k <= n; k++) {
            firsts[k] = Rows.firsts(operands[k], axis);
        }
        Layout lines = Layout.of(firsts[0].shape(), firsts);
        long size = y.size(axis);
        long count = lines.count();
        boolean columns = count >= MIN_COLUMNS && Math.abs(lines.stride(0, lines.rank() - 1)) < y.stride(axis);
        Rows rows = columns ? new Rows(MIN_COLUMNS, 0, 1) : Rows.of(size, y.dtype(), vectors(lines, axis, operands));
        Launch launch = launcher.launch(new SoftmaxKernel(logarithms, n, y.dtype(), columns, rows));
        launch.tensor(y).tensor(inputs[0]).tensor(inputs[n - 1]);
        launch.i64(y.stride(axis)).i64(inputs[0].stride(axis)).i64(inputs[n - 1].stride(axis));
        launch.i32((int) size).layout(lines, n + 1);
        if (columns) {
            launch.threads(count);
        } else {
            rows.launch(launch, count);
        }
    }

    /** Returns whether strides and alignment allow reading every line of every operand in vectors of 16 bytes. */
    private static boolean vectors(Layout lines, int axis, Tensor... operands) {
        for (int k = 0; k < operands.length; k++) {
            Tensor x = operands[k];
            boolean fits = x.stride(axis) == 1 && x.address() % 16 == 0;
            for (int d = 0; d < lines.rank(); d++) {
                fits &= lines.size(d) == 1 || lines.stride(k, d) * x.dtype().bytes() % 16 == 0;
            }
            if (!fits) {
                return false;
            }
        }
        return true;
    }
}
