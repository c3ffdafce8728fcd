package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Random;

/** {@link Random} operations, which generate the same bits as on every other device. */
public final class RandomKernels implements Kernels<Random> {
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

    /** The results are row-major: random numbers are counted in that order. */
    @Override
    public Answer compute(Random op, Tensor[] in, Tensor[] out) {
        Tensor y = out[0];
        switch (op) {
            case Random.Uniform u -> begin(u, "uniform", y).f32((float) u.low()).f32((float) (u.high() - u.low()))
                    .f32(u.below()).threads(pairs(y));
            case Random.Normal n -> begin(n, "normal", y).f32((float) n.mean()).f32((float) n.deviation())
                    .threads(pairs(y));
            case Random.Bernoulli b -> begin(b, "bernoulli", y).f32((float) b.probability())
                    .threads(pairs(y));
            case Random.Integers i -> begin(i, "integers", y).i64(i.low()).i64(i.high() - i.low())
                    .threads(pairs(y));
            case Random.Dropout d -> {
                // A copy is a launch of its own, so it comes first.
                Tensor x = launcher.dense(in[0]);
                begin(d, "dropout", y).f32((float) d.probability()).f64(1 / (1 - d.probability())).tensor(x)
                        .threads(pairs(y));
            }
        }
        return Answer.HANDLED;
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
