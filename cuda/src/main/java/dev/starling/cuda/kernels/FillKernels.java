package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Fill;

/** {@link Fill} operations. */
public final class FillKernels {
    private static final int VECTOR_BYTES = 16;

    private final Launcher launcher;

    private record FillKernel(DType type) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("fill", "progression", "T", Types.of(type));
        }
    }

    /** Makes the family's kernels for a device. */
    FillKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns the results. */
    public Tensor[] run(Fill op, Spec output) {
        Tensor y = Storage.allocate(output);
        switch (op) {
            case Fill.Full(_, double value) -> fill(y, value);
            case Fill.Range(_, double start, double step) -> progression(y, start, step);
        }
        return new Tensor[] {y};
    }

    /** Sets every element of a dense tensor to a value. */
    void fill(Tensor y, double value) {
        if (Double.doubleToRawLongBits(value) == 0 && y.count() > 0) {
            launcher.gpu().fill(y.address(), (byte) 0, y.spec().bytes(), launcher.stream());
        } else {
            progression(y, value, 0);
        }
    }

    private void progression(Tensor y, double start, double step) {
        launcher.launch(new FillKernel(y.dtype())).tensor(y).i64(y.count()).f64(start).f64(step)
                .threads(Math.ceilDiv(y.count(), (long) VECTOR_BYTES / y.dtype().bytes()));
    }
}
