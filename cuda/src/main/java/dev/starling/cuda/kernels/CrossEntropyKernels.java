package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.CrossEntropy;

/**
 * {@link CrossEntropy} operations. Logits are read in their own type. Two numbers of each row are kept for the
 * gradient, which reads the logits again. With smoothing, rows of more than 16384 classes, or 32768 in 16 bits, are
 * read twice. A class out of range is an error.
 */
public final class CrossEntropyKernels implements Kernels<CrossEntropy> {
    private final Launcher launcher;

    private record CrossEntropyKernel(String function, DType type, DType target, Rows rows) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("crossentropy", function, rows.macros(type, "TI", Types.of(target)));
        }
    }

    /** Makes the family's kernels for a device. */
    public CrossEntropyKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Answer compute(CrossEntropy op, Tensor[] in, Tensor[] out) {
        Tensor matrix = in[op instanceof CrossEntropy.Loss ? 0 : 1];
        if (matrix.size(0) > Layout.MAX_COUNT || matrix.size(1) > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        switch (op) {
            case CrossEntropy.Loss o -> loss(o, in[0], in[1], out[0], out[1]);
            case CrossEntropy.Gradient o -> gradient(o, in, out[0]);
        }
        return Answer.HANDLED;
    }

    private void loss(CrossEntropy.Loss op, Tensor logits, Tensor target, Tensor losses, Tensor kept) {
        Tensor x = launcher.dense(logits);
        Rows rows = rows(x);
        int fault = launcher.faults().register(op, 0, x.size(1) - 1, logits, target);
        Launch launch = launcher.launch(new CrossEntropyKernel("loss", x.dtype(), target.dtype(), rows));
        launch.tensor(losses).tensor(kept).tensor(x);
        end(launch, target, x, op.smoothing(), op.ignored());
        rows.launch(launch.fault(fault), target.count());
    }

    private void gradient(CrossEntropy.Gradient op, Tensor[] in, Tensor dx) {
        Tensor g = in[0];
        Tensor target = in[3];
        Tensor x = launcher.dense(in[1]);
        Tensor kept = launcher.dense(in[2]);
        Rows rows = rows(x);
        int fault = launcher.faults().register(op, 0, x.size(1) - 1, in);
        Launch launch = launcher.launch(new CrossEntropyKernel("gradient", x.dtype(), target.dtype(), rows));
        launch.tensor(dx).tensor(g).i64(g.stride(0)).tensor(x).tensor(kept);
        end(launch, target, x, op.smoothing(), op.ignored());
        rows.launch(launch.fault(fault), target.count());
    }

    private static Rows rows(Tensor x) {
        return Rows.ofMatrix(x.size(1), x.dtype(), x.address() % 16 == 0);
    }

    private static void end(Launch launch, Tensor target, Tensor x, double smoothing, long ignored) {
        launch.tensor(target).i64(target.stride(0)).i32((int) x.size(0)).i32((int) x.size(1))
                .f64(smoothing / x.size(1)).f64(1 - smoothing).i64(ignored);
    }
}
