package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@code argmax} and {@code argmin} on f32. They find the extreme element of each row, then its first
 * position.
 */
final class ArgMaxKernels {
    private static final long GRAIN = 1 << 15;

    private ArgMaxKernels() {
    }

    /** Returns the result, or {@code null} unless either a single dimension or the last ones are reduced. */
    static Tensor @Nullable [] run(Reduction op, Tensor operand, Spec output, boolean max) {
        int axis = innermost(op.axes(), operand.rank());
        if (axis < 0) {
            return null;
        }
        Tensor x = Layout.of(operand, Layout.innermost(operand.shape(), axis));
        Tensor y = Storage.allocate(output);
        long from = x.address();
        long to = y.address();
        long columns = op.axes().extent(operand.shape());
        Parallel.forRange(y.count(), Math.max(1, GRAIN / columns), (first, end) -> {
            for (long row = first; row < end; row++) {
                long place = place(from + 4 * row * columns, columns, max);
                ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, to + 8 * row, place);
            }
        });
        Layout.release(x, operand);
        return new Tensor[] {y};
    }

    /** Returns the reduced dimension (the last, if several trailing ones are reduced), or -1. */
    private static int innermost(Axes axes, int rank) {
        int last = -1;
        int count = 0;
        int trailing = 0;
        for (int i = 0; i < rank; i++) {
            if (axes.contains(i)) {
                last = i;
                count++;
                trailing++;
            } else {
                trailing = 0;
            }
        }
        return count == 1 || count > 0 && trailing == count ? last : -1;
    }

    private static long place(long row, long columns, boolean max) {
        float extreme = RowLoops.FASTEST.matrix().extreme(row, columns, max);
        long i = 0;
        if (Float.isNaN(extreme)) {
            while (!Float.isNaN(getFloat(row + 4 * i))) {
                i++;
            }
        } else {
            while (getFloat(row + 4 * i) != extreme) {
                i++;
            }
        }
        return i;
    }
}
