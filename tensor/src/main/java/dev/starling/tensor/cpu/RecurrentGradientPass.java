package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.Block;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The gradients of a recurrent layer in f32. Goes backwards through the steps, with one loop over the cell and one
 * product with the state's weight per step; then each other gradient is one product over all steps.
 */
final class RecurrentGradientPass {
    private static final Reduction.Sum OVER_ROWS = new Reduction.Sum(new Axes(1), false);

    private final RecurrentSequence sequence;
    private final Recurrence.Operands<Tensor> in;
    private final boolean input;
    private final int units;
    private final int rows;
    private final int kept;
    private final Tensor dy;
    private final Tensor dh;
    private final @Nullable Tensor dc;
    private final Tensor y;
    private final Tensor reserve;
    private final Tensor[] results;
    /**
     * The gradients of all steps' sums, by x and by h, {@code [T·N, G·H]}. Except for a GRU the two are the same
     * tensor.
     */
    private final Tensor slopes;
    private final Tensor recurrentSlopes;
    /** Strides of slopes, of states, and of what the forward pass kept. */
    private final long[] gates;
    private final long[] narrow;
    private final long[] wide;

    /** Operands and results are dense. */
    RecurrentGradientPass(Recurrence.Gradient op, Tensor[] operands, Tensor[] results) {
        in = op.operands(operands);
        sequence = new RecurrentSequence(op, in);
        input = op.input();
        units = sequence.units;
        rows = sequence.rows;
        kept = sequence.cell.reserved();
        gates = new long[] {rows, 1};
        narrow = new long[] {units, 1};
        wide = new long[] {(long) Math.max(1, kept) * units, 1};
        int states = in.c() == null ? 1 : 2;
        dy = operands[0];
        y = operands[states + 1];
        reserve = operands[states + 2];
        this.results = results;
        dh = results[1];
        dc = in.c() == null ? null : results[2];
        CopyKernels.copy(operands[1], dh);
        if (dc != null) {
            CopyKernels.copy(operands[2], dc);
        }
        Shape all = Shape.of((long) sequence.steps * sequence.batch, rows);
        slopes = Storage.allocate(dy.spec().with(all));
        recurrentSlopes = sequence.cell == Cell.GRU ? Storage.allocate(dy.spec().with(all)) : slopes;
    }

    void run() {
        sequence.share((from, to) -> steps((int) from, (int) (to - from)));
        long all = (long) sequence.steps * sequence.batch;
        int w = dc == null ? 2 : 3;
        if (input) {
            RecurrentSequence.product(all, sequence.inputs, rows).left(slopes.address(), rows, 1)
                    .right(in.weight().address(), sequence.inputs, 1)
                    .keepRight(in.weight().storage(), in.weight().offset())
                    .result(results[0].address(), sequence.inputs).run();
        }
        Tensor x = present(in.x(), sequence.inputs, 0);
        RecurrentSequence.product(rows, sequence.inputs, all).left(slopes.address(), 1, rows)
                .right(x.address(), sequence.inputs, 1).result(results[w].address(), sequence.inputs).run();
        Layout.release(x, in.x());
        recurrentWeight(results[w + 1]);
        if (in.bias() != null) {
            sum(slopes, results[w + 2]);
            if (recurrentSlopes == slopes) {
                CopyKernels.copy(results[w + 2], results[w + 3]);
            } else {
                sum(recurrentSlopes, results[w + 3]);
                recurrentSlopes.close();
            }
        } else if (recurrentSlopes != slopes) {
            recurrentSlopes.close();
        }
        slopes.close();
        sequence.close();
    }

    private static void sum(Tensor slopes, Tensor to) {
        Tensor sum = Objects.requireNonNull(ReductionKernels.run(OVER_ROWS, slopes, to.spec()))[0];
        CopyKernels.copy(sum, to);
        sum.close();
    }

    /** Sums over all steps except the first ones, which read the y of the preceding step, then over the first ones. */
    private void recurrentWeight(Tensor to) {
        long others = (long) (sequence.steps - 1) * sequence.batch;
        boolean forwards = sequence.step(0) == 0;
        if (others > 0) {
            Tensor before = forwards ? present(y, units, 1) : y;
            RecurrentSequence.product(rows, units, others)
                    .left(sequence.at(recurrentSlopes.address(), forwards ? 1 : 0, 0, rows), 1, rows)
                    .right(sequence.at(before.address(), forwards ? 0 : 1, 0, units), units, 1)
                    .result(to.address(), units).run();
            Layout.release(before, y);
        }
        Block gathered = null;
        long first = sequence.at(recurrentSlopes.address(), sequence.step(0), 0, rows);
        if (sequence.masked() && !forwards) {
            gathered = HostAllocator.shared().allocate(4L * sequence.batch * rows);
            for (int n = 0; n < sequence.batch; n++) {
                int t = Math.max(0, sequence.length(n) - 1);
                ALL.asSlice(gathered.address() + 4L * n * rows, 4L * rows).copyFrom(
                        ALL.asSlice(sequence.at(recurrentSlopes.address(), t, n, rows), 4L * rows));
            }
            first = gathered.address();
        }
        RecurrentSequence.product(rows, units, sequence.batch).left(first, 1, rows)
                .right(in.h().address(), units, 1).result(to.address(), units).accumulate(others > 0).run();
        if (gathered != null) {
            HostAllocator.shared().free(gathered);
        }
    }

    /**
     * Returns {@code values [T, N, width]} with 0 in place of those that no step reads. These may be infinite or NaN:
     * their gradients are 0, but the product of such a value and 0 would be NaN.
     *
     * @param ahead by how many steps a value is read later
     */
    private Tensor present(Tensor values, int width, int ahead) {
        if (!sequence.masked()) {
            return values;
        }
        Tensor copy = CopyKernels.copy(values);
        for (int n = 0; n < sequence.batch; n++) {
            for (int t = Math.max(0, sequence.length(n) - ahead); t < sequence.steps; t++) {
                ALL.asSlice(sequence.at(copy.address(), t, n, width), 4L * width).fill((byte) 0);
            }
        }
        return copy;
    }

    /** Goes backwards through all steps of {@code n} sequences. */
    private void steps(int from, int n) {
        boolean carries = sequence.masked() || sequence.cell == Cell.GRU;
        Matmul product = RecurrentSequence.product(n, units, rows).right(in.recurrentWeight().address(), units, 1)
                .keepRight(in.recurrentWeight().storage(), in.recurrentWeight().offset())
                .result(dh.address() + 4L * from * units, units).accumulate(carries);
        FusedLoop cell = RecurrentCells.backward(sequence.cell, sequence.masked());
        long[] dims = {n, units};
        for (int i = sequence.steps - 1; i >= 0; i--) {
            Launch launch = Launch.of(cell);
            launch.shape(dims);
            bindOperands(launch, dims, i, from);
            launch.runStrided();
            product.left(sequence.at(recurrentSlopes.address(), sequence.step(i), from, rows), rows, 1).run();
        }
    }

    private void bindOperands(Launch launch, long[] dims, int i, int from) {
        int t = sequence.step(i);
        long values = kept == 0 ? sequence.at(y.address(), t, from, units)
                : sequence.at(reserve.address(), t, from, wide[0]);
        long offset = 4L * from * units;
        int k = 0;
        for (int g = 0; g < Math.max(1, kept); g++) {
            launch.operand(k++, values + 4L * g * units, dims, wide);
        }
        launch.operand(k++, sequence.at(dy.address(), t, from, units), dims, narrow);
        launch.operand(k++, dh.address() + offset, dims, narrow);
        if (dc != null) {
            launch.operand(k++, dc.address() + offset, dims, narrow);
        }
        if (kept > 0) {
            k = before(launch, dims, k, i, from);
        }
        if (sequence.masked()) {
            long[] column = {dims[0], 1};
            launch.operand(k++, sequence.present(t, from), column, new long[] {1, 1});
            if (kept > 0) {
                launch.operand(k++, sequence.first(t, from), column, new long[] {1, 1});
                launch.operand(k++, state().address() + offset, dims, narrow);
            }
        }
        for (int g = 0; g < sequence.cell.gates(); g++) {
            launch.operand(k++, sequence.at(slopes.address(), t, from, rows) + 4L * g * units, dims, gates);
        }
        for (int g = 0; recurrentSlopes != slopes && g < sequence.cell.gates(); g++) {
            launch.operand(k++, sequence.at(recurrentSlopes.address(), t, from, rows) + 4L * g * units, dims, gates);
        }
        if (dc != null) {
            launch.operand(k++, dc.address() + offset, dims, narrow);
        }
        if (sequence.masked() || sequence.cell == Cell.GRU) {
            launch.operand(k, dh.address() + offset, dims, narrow);
        }
    }

    /** Returns the state before all steps: h, or for an LSTM c. */
    private Tensor state() {
        return in.c() == null ? in.h() : in.c();
    }

    /** Adds the state before the {@code i}-th step as an operand: h, or for an LSTM c. */
    private int before(Launch launch, long[] dims, int k, int i, int from) {
        if (i == 0) {
            launch.operand(k, state().address() + 4L * from * units, dims, narrow);
        } else if (dc == null) {
            launch.operand(k, sequence.at(y.address(), sequence.step(i - 1), from, units), dims, narrow);
        } else {
            launch.operand(k, sequence.at(reserve.address(), sequence.step(i - 1), from, wide[0]) + 16L * units, dims,
                    wide);
        }
        return k + 1;
    }
}
