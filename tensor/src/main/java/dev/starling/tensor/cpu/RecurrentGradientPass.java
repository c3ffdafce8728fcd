package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

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
import org.jspecify.annotations.Nullable;

/**
 * The gradients of a recurrent layer in f32. Goes backwards through the steps, with one loop over the cell and one
 * product with the state's weight per step; then each other gradient is one product over all steps.
 */
final class RecurrentGradientPass implements RecurrentSequence.Pass {
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
    /** Strides of slopes, of states, and of what the forward pass kept. */
    private final long[] gates;
    private final long[] narrow;
    private final long[] wide;
    private final boolean separate;
    private final ReducedLayout sums;
    private final List<Runnable> before = new ArrayList<>();
    private final @Nullable Runnable sameBias;
    private final RangeTask task;
    private final Matmul inputProduct;
    private final Matmul weightProduct;
    private final @Nullable Matmul recurrentProduct;
    private final Matmul firstProduct;
    /**
     * Addresses during a run of the gradients of all steps' sums, by x and by h, {@code [T·N, G·H]}. Except for a GRU
     * the two are the same.
     */
    private long slopes;
    private long recurrentSlopes;

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
        separate = sequence.cell == Cell.GRU;
        int states = in.c() == null ? 1 : 2;
        dy = operands[0];
        y = operands[states + 1];
        reserve = operands[states + 2];
        this.results = results;
        dh = results[1];
        dc = in.c() == null ? null : results[2];
        before.add(CopyKernels.prepare(operands[1], dh));
        if (dc != null) {
            before.add(CopyKernels.prepare(operands[2], dc));
        }
        task = sequence.ranges(Steps::new);
        long all = (long) sequence.steps * sequence.batch;
        long others = (long) (sequence.steps - 1) * sequence.batch;
        sums = ReducedLayout.ofRows(all, rows);
        int w = weights();
        sameBias = in.bias() == null || separate ? null : CopyKernels.prepare(results[w + 2], results[w + 3]);
        inputProduct = RecurrentSequence.product(all, sequence.inputs, rows)
                .right(in.weight().address(), sequence.inputs, 1)
                .keepRight(in.weight().storage(), in.weight().offset());
        weightProduct = RecurrentSequence.product(rows, sequence.inputs, all)
                .result(results[w].address(), sequence.inputs);
        recurrentProduct = others == 0 ? null
                : RecurrentSequence.product(rows, units, others).result(results[w + 1].address(), units);
        firstProduct = RecurrentSequence.product(rows, units, sequence.batch)
                .result(results[w + 1].address(), units).accumulate(others > 0);
    }

    /** Returns the number of the result that is the gradient of the input's weight. */
    private int weights() {
        return in.c() == null ? 2 : 3;
    }

    @Override
    public void run() {
        before.forEach(Runnable::run);
        HostAllocator memory = HostAllocator.shared();
        long bytes = 4L * sequence.steps * sequence.batch * rows;
        Block own = memory.allocate(separate ? 2 * bytes : bytes);
        try {
            slopes = own.address();
            recurrentSlopes = separate ? slopes + bytes : slopes;
            sequence.share(task);
            gradients();
        } finally {
            memory.free(own);
        }
    }

    @Override
    public void close() {
        sequence.close();
    }

    /** Computes the gradients of the input, of weights and of biases from those of all steps' sums. */
    private void gradients() {
        if (input) {
            inputProduct.left(slopes, rows, 1).result(results[0].address(), sequence.inputs).run();
        }
        Tensor x = present(in.x(), sequence.inputs, 0);
        weightProduct.left(slopes, 1, rows).right(x.address(), sequence.inputs, 1).run();
        Layout.release(x, in.x());
        recurrentWeight();
        if (in.bias() != null) {
            int w = weights();
            ReductionKernels.sumRows(sums, slopes, results[w + 2].address());
            if (sameBias != null) {
                sameBias.run();
            } else {
                ReductionKernels.sumRows(sums, recurrentSlopes, results[w + 3].address());
            }
        }
    }

    /** Sums over all steps except the first ones, which read the y of the preceding step, then over the first ones. */
    private void recurrentWeight() {
        boolean forwards = sequence.step(0) == 0;
        if (recurrentProduct != null) {
            Tensor earlier = forwards ? present(y, units, 1) : y;
            try {
                recurrentProduct.left(sequence.at(recurrentSlopes, forwards ? 1 : 0, 0, rows), 1, rows)
                        .right(sequence.at(earlier.address(), forwards ? 0 : 1, 0, units), units, 1).run();
            } finally {
                Layout.release(earlier, y);
            }
        }
        Block gathered = null;
        long first = sequence.at(recurrentSlopes, sequence.step(0), 0, rows);
        if (sequence.masked() && !forwards) {
            gathered = HostAllocator.shared().allocate(4L * sequence.batch * rows);
            for (int n = 0; n < sequence.batch; n++) {
                int t = Math.max(0, sequence.length(n) - 1);
                ALL.asSlice(gathered.address() + 4L * n * rows, 4L * rows).copyFrom(
                        ALL.asSlice(sequence.at(recurrentSlopes, t, n, rows), 4L * rows));
            }
            first = gathered.address();
        }
        Tensor h = stateOfPresent();
        try {
            firstProduct.left(first, 1, rows).right(h.address(), units, 1).run();
        } finally {
            Layout.release(h, in.h());
            if (gathered != null) {
                HostAllocator.shared().free(gathered);
            }
        }
    }

    /** Returns the initial state with 0 for sequences without steps, which do not read it. */
    private Tensor stateOfPresent() {
        if (!sequence.masked()) {
            return in.h();
        }
        Tensor copy = CopyKernels.copy(in.h());
        for (int n = 0; n < sequence.batch; n++) {
            if (sequence.length(n) == 0) {
                ALL.asSlice(copy.address() + 4L * n * units, 4L * units).fill((byte) 0);
            }
        }
        return copy;
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

    /** Goes backwards through all steps of a range of sequences. */
    private final class Steps implements RecurrentSequence.Range {
        private final int from;
        private final long[] dims;
        private final long[] column;
        private final long[] byOne = {1, 1};
        private final Matmul product;
        private final FusedLoop cell = RecurrentCells.backward(sequence.cell, sequence.masked());

        Steps(int from, int n) {
            this.from = from;
            dims = new long[] {n, units};
            column = new long[] {n, 1};
            product = RecurrentSequence.product(n, units, rows).right(in.recurrentWeight().address(), units, 1)
                    .keepRight(in.recurrentWeight().storage(), in.recurrentWeight().offset())
                    .result(dh.address() + 4L * from * units, units)
                    .accumulate(sequence.masked() || separate);
        }

        @Override
        public int sequences() {
            return (int) dims[0];
        }

        @Override
        public void run() {
            for (int i = sequence.steps - 1; i >= 0; i--) {
                Launch launch = Launch.of(cell);
                launch.shape(dims);
                bindOperands(launch, this, i);
                launch.runStrided();
                product.left(sequence.at(recurrentSlopes, sequence.step(i), from, rows), rows, 1).run();
            }
        }
    }

    private void bindOperands(Launch launch, Steps range, int i) {
        long[] dims = range.dims;
        int from = range.from;
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
            launch.operand(k++, sequence.present(t, from), range.column, range.byOne);
            if (kept > 0) {
                launch.operand(k++, sequence.first(t, from), range.column, range.byOne);
                launch.operand(k++, state().address() + offset, dims, narrow);
            }
        }
        for (int g = 0; g < sequence.cell.gates(); g++) {
            launch.operand(k++, sequence.at(slopes, t, from, rows) + 4L * g * units, dims, gates);
        }
        for (int g = 0; separate && g < sequence.cell.gates(); g++) {
            launch.operand(k++, sequence.at(recurrentSlopes, t, from, rows) + 4L * g * units, dims, gates);
        }
        if (dc != null) {
            launch.operand(k++, dc.address() + offset, dims, narrow);
        }
        if (sequence.masked() || separate) {
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
