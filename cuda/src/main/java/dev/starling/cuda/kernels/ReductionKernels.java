package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Reduction;

/**
 * {@link Reduction} operations: a {@link Fold} of one operand, which is read once. 16-bit floats are summed in f32,
 * integers in i64.
 */
public final class ReductionKernels implements Kernels<Reduction> {
    private final Launcher launcher;

    private record ReductionProblem(String fold, DType type, DType result) implements Fold.Problem {
        @Override
        public KernelSource source(String function, int group, int width) {
            return KernelSource.of("reduction", function, "FOLD_TYPE", fold, "TX", Types.of(type), "TY",
                    Types.of(result), "C", Types.wide(type), "GROUP", group, "WIDTH", width);
        }

        @Override
        public int partBytes() {
            return 16;
        }

        @Override
        public boolean numbered() {
            return fold.startsWith("Arg");
        }
    }

    /** Makes the family's kernels for a device. */
    public ReductionKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Answer compute(Reduction op, Tensor[] in, Tensor[] out) {
        return compute(op, in[0], out[0]);
    }

    /** Reduces {@code x} to the dense tensor {@code y}. */
    Answer compute(Reduction op, Tensor x, Tensor y) {
        long extent = op.axes().extent(x.shape());
        ReductionProblem problem = new ReductionProblem(fold(op), x.dtype(), y.dtype());
        return Fold.run(launcher, problem, op.axes(), y, l -> l.tensor(x).tensor(y).i64(extent), x);
    }

    /** Returns the name of the fold in reduction.cu. */
    private static String fold(Reduction op) {
        return switch (op) {
            case Reduction.Sum _ -> "Sum";
            case Reduction.Mean _ -> "Mean";
            case Reduction.Prod _ -> "Prod";
            case Reduction.Max _ -> "Max";
            case Reduction.Min _ -> "Min";
            case Reduction.Any _ -> "Any";
            case Reduction.All _ -> "All";
            case Reduction.ArgMax _ -> "ArgMax";
            case Reduction.ArgMin _ -> "ArgMin";
        };
    }
}
