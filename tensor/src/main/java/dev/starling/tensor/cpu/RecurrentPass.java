package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import dev.starling.tensor.spi.Block;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A recurrent layer in f32: one product of all steps with the input's weight; then for each step one product with the
 * state's weight, which is added to it, and one loop over the cell. A GRU keeps its sums by the state separate. The
 * sums are stored where the kept values go, which then replace them.
 */
final class RecurrentPass implements RecurrentSequence.Pass {
    private final RecurrentSequence sequence;
    private final Recurrence.Operands<Tensor> in;
    private final int units;
    private final int rows;
    private final boolean keeps;
    private final boolean separate;
    private final Tensor y;
    private final Tensor h;
    private final @Nullable Tensor c;
    private final Tensor reserve;
    /** Whether h and c are updated in place, because a sequence's values of a step that it lacks are not its state. */
    private final boolean holdsState;
    private final boolean holdsCell;
    /** The distance between the sums of sequences. */
    private final long width;
    private final Matmul product;
    private final List<Runnable> before = new ArrayList<>();
    private final List<Runnable> after = new ArrayList<>();
    private final RangeTask task;
    /** The address of the sums of all steps during a run. */
    private long sums;

    /** Operands and results are dense. */
    RecurrentPass(Recurrence.Forward op, Tensor[] operands, Tensor[] results) {
        in = op.operands(operands);
        sequence = new RecurrentSequence(op, in);
        units = sequence.units;
        rows = sequence.rows;
        keeps = op.keeps() && op.cell().reserved() > 0;
        separate = op.cell() == Cell.GRU;
        y = results[0];
        h = results[1];
        c = in.c() == null ? null : results[2];
        reserve = results[results.length - 1];
        holdsState = sequence.masked();
        holdsCell = c != null && (sequence.masked() || !keeps);
        width = keeps ? (long) sequence.cell.reserved() * units : rows;
        task = sequence.ranges(Steps::new);
        product = RecurrentSequence.product((long) sequence.steps * sequence.batch, rows, sequence.inputs)
                .left(in.x().address(), sequence.inputs, 1).right(in.weight().address(), 1, sequence.inputs)
                .keepRight(in.weight().storage(), in.weight().offset());
        long last = sequence.step(sequence.steps - 1);
        if (holdsState) {
            before.add(CopyKernels.prepare(in.h(), h));
        } else {
            Tensor end = y.storage().view(y.spec().with(h.shape()), h.sharedStrides(), last * h.count());
            after.add(CopyKernels.prepare(end, h));
        }
        if (holdsCell && in.c() != null && c != null) {
            before.add(CopyKernels.prepare(in.c(), c));
        } else if (c != null) {
            after.add(CopyKernels.prepare(reserve.storage().view(reserve.spec().with(c.shape()), new long[] {width, 1},
                    last * sequence.batch * width + 4L * units), c));
        }
    }

    @Override
    public void run() {
        Block own = keeps || rows == units ? null
                : HostAllocator.shared().allocate(4L * sequence.steps * sequence.batch * rows);
        Block bias = in.bias() == null || separate ? null : bothBiases();
        try {
            sums = keeps ? reserve.address() : own == null ? y.address() : own.address();
            product.result(sums, width)
                    .bias(bias != null ? bias.address() : in.bias() == null ? 0 : in.bias().address()).run();
            before.forEach(Runnable::run);
            sequence.share(task);
            after.forEach(Runnable::run);
        } finally {
            if (own != null) {
                HostAllocator.shared().free(own);
            }
            if (bias != null) {
                HostAllocator.shared().free(bias);
            }
        }
    }

    @Override
    public void close() {
        sequence.close();
    }

    private Block bothBiases() {
        Block sum = HostAllocator.shared().allocate(4L * rows);
        long bias = Objects.requireNonNull(in.bias()).address();
        long recurrentBias = Objects.requireNonNull(in.recurrentBias()).address();
        for (long at = 0; at < 4L * rows; at += 4) {
            putFloat(sum.address() + at, getFloat(bias + at) + getFloat(recurrentBias + at));
        }
        return sum;
    }

    /** All steps of a range of sequences. */
    private final class Steps implements RecurrentSequence.Range {
        private final int from;
        private final long offset;
        private final long[] dims;
        private final long[] wide = {width, 1};
        private final long[] gates = {rows, 1};
        private final long[] narrow = {units, 1};
        private final long[] column;
        private final long[] byOne = {1, 1};
        private final FusedLoop cell = RecurrentCells.forward(sequence.cell, keeps, sequence.masked());
        private final Matmul product;
        private int next;

        private Steps(int from, int n) {
            this.from = from;
            offset = 4L * from * units;
            dims = new long[] {n, units};
            column = new long[] {n, 1};
            product = RecurrentSequence.product(n, rows, units)
                    .right(in.recurrentWeight().address(), 1, units)
                    .keepRight(in.recurrentWeight().storage(), in.recurrentWeight().offset())
                    .accumulate(!separate)
                    .bias(separate && in.recurrentBias() != null ? in.recurrentBias().address() : 0);
        }

        @Override
        public int sequences() {
            return (int) dims[0];
        }

        @Override
        public void run() {
            Block own = separate ? HostAllocator.shared().allocate(4L * dims[0] * rows) : null;
            try {
                for (int i = 0; i < sequence.steps; i++) {
                    step(i, own == null ? 0 : own.address());
                }
            } finally {
                if (own != null) {
                    HostAllocator.shared().free(own);
                }
            }
        }

        /** Computes a step; {@code own} is the address of the sums by the state, if they are separate. */
        private void step(int i, long own) {
            long a = sequence.at(sums, sequence.step(i), from, width);
            product.left(stateBefore(i), units, 1).result(separate ? own : a, separate ? rows : width).run();
            Launch launch = Launch.of(cell);
            launch.shape(dims);
            next = 0;
            gates(launch, sequence.cell.gates(), a, wide);
            gates(launch, separate ? sequence.cell.gates() : 0, own, gates);
            inputs(launch, i);
            outputs(launch, i, a);
            launch.runStrided();
        }

        private long stateBefore(int i) {
            return holdsState ? h.address() + offset : i == 0 ? in.h().address() + offset
                    : sequence.at(y.address(), sequence.step(i - 1), from, units);
        }

        private void gates(Launch launch, int count, long first, long[] strides) {
            for (int g = 0; g < count; g++) {
                launch.operand(next++, first + 4L * g * units, dims, strides);
            }
        }

        private void inputs(Launch launch, int i) {
            if (separate || holdsState) {
                launch.operand(next++, stateBefore(i), dims, narrow);
            }
            if (c != null && holdsCell) {
                launch.operand(next++, c.address() + offset, dims, narrow);
            } else if (in.c() != null && i == 0) {
                launch.operand(next++, in.c().address() + offset, dims, narrow);
            } else if (c != null) {
                long before = sequence.at(reserve.address(), sequence.step(i - 1), from, width);
                launch.operand(next++, before + 16L * units, dims, wide);
            }
            if (sequence.masked()) {
                launch.operand(next++, sequence.present(sequence.step(i), from), column, byOne);
            }
        }

        private void outputs(Launch launch, int i, long kept) {
            gates(launch, keeps ? sequence.cell.reserved() : 0, kept, wide);
            if (holdsState) {
                launch.operand(next++, h.address() + offset, dims, narrow);
            }
            if (c != null && holdsCell) {
                launch.operand(next++, c.address() + offset, dims, narrow);
            }
            launch.operand(next, sequence.at(y.address(), sequence.step(i), from, units), dims, narrow);
        }
    }
}
