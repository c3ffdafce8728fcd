package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Random;

/** {@link Random} operations, which generate the same bits as on every other device. */
public final class RandomKernels {
    private final Launcher launcher;

    private record RandomKernel(String distribution, DType type) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("random", distribution, "T", Types.of(type));
        }
    }

    /** Makes the family's kernels for a device. */
    public RandomKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns the results, row-major: random numbers are counted in that order. */
    public Tensor[] run(Random op, Tensor[] inputs, Spec output) {
        Tensor y = Storage.allocate(output);
        switch (op) {
            case Random.Uniform u -> begin(u, "uniform", y).f32((float) u.low()).f32((float) (u.high() - u.low()))
                    .f32(Math.nextDown((float) u.high())).threads(pairs(y));
            case Random.Normal n -> begin(n, "normal", y).f32((float) n.mean()).f32((float) n.deviation())
                    .threads(pairs(y));
            case Random.Bernoulli b -> begin(b, "bernoulli", y).f32((float) b.probability())
                    .threads(pairs(y));
            case Random.Integers i -> begin(i, "integers", y).i64(i.low()).i64(i.high() - i.low())
                    .threads(pairs(y));
            case Random.Dropout d -> drop(d, inputs[0], y);
        }
        return new Tensor[] {y};
    }

    private void drop(Random.Dropout op, Tensor input, Tensor y) {
        Tensor x = launcher.dense(input);
        begin(op, "dropout", y).f32((float) op.probability()).f64(1 / (1 - op.probability())).tensor(x)
                .threads(pairs(y));
        if (x != input) {
            x.close();
        }
    }

    /** Returns the number of threads: each generates two blocks. */
    private static long pairs(Tensor y) {
        return Math.ceilDiv(Random.blocks(y.count()), 2L);
    }

    private Launch begin(Random op, String distribution, Tensor y) {
        return launcher.launch(new RandomKernel(distribution, y.dtype())).tensor(y).i64(y.count()).i64(op.seed())
                .i64(op.counter());
    }
}
