package dev.starling.cuda.kernels;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.View;
import java.util.Arrays;

/** {@link Movement} operations: copies into views of the result. */
public final class MovementKernels {
    private final Launcher launcher;

    /** Makes the family's kernels for a device. */
    public MovementKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns the results. */
    public Tensor[] run(Movement op, Tensor[] inputs, Spec output) {
        Tensor y = Storage.allocate(output);
        switch (op) {
            case Movement.Copy _ -> copy(inputs[0], y);
            case Movement.Concat(int axis, _) -> concat(inputs, axis, y);
            case Movement.Place(_, long[] starts, long[] steps, double value) -> {
                if (inputs[0].count() < y.count()) {
                    launcher.fill(y, value);
                }
                launcher.assign(grid(y, starts, steps, inputs[0]), inputs[0]);
            }
        }
        return new Tensor[] {y};
    }

    private void copy(Tensor x, Tensor y) {
        if (x.isContiguous()) {
            launcher.copy(x.address(), y.address(), y.spec().bytes());
        } else {
            launcher.assign(y, x);
        }
    }

    private void concat(Tensor[] inputs, int axis, Tensor y) {
        long[] starts = new long[y.rank()];
        long[] steps = new long[y.rank()];
        Arrays.fill(steps, 1);
        for (Tensor x : inputs) {
            launcher.assign(grid(y, starts, steps, x), x);
            starts[axis] += x.size(axis);
        }
    }

    private static Tensor grid(Tensor y, long[] starts, long[] steps, Tensor like) {
        return new View.Slice(starts, steps, like.shape().dims()).view(y, y.spec().with(like.shape()));
    }
}
