package dev.starling.tensor.cpu;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.spi.Block;

/**
 * A recurrent layer in f32: one product of all steps with the weight of the input, then for each step one with that of
 * the state, and one loop over the cell. The sums by x are written to where the kept values go, which replace them.
 */
final class RecurrentPass {
    private final RecurrentSequence sequence;
    private final Recurrence.Operands<Tensor> in;
    private final int units;
    private final int rows;
    private final boolean keeps;
    private final Tensor y;
    private final Tensor h;
    private final Tensor c;
    private final Tensor reserve;

    /** Operands and results are without gaps. */
    RecurrentPass(Recurrence.Forward op, Tensor[] operands, Tensor[] results) {
        in = op.operands(operands);
        sequence = new RecurrentSequence(op, in);
        units = sequence.units;
        rows = sequence.rows;
        keeps = op.keeps();
        y = results[0];
        h = results[1];
        c = in.c() == null ? null : results[2];
        reserve = results[results.length - 1];
    }

    void run() {
        boolean plain = sequence.cell.gates() == 1;
        Block sums = keeps || plain ? null
                : HostAllocator.shared().allocate(4L * sequence.steps * sequence.batch * rows);
        long a = keeps ? reserve.address() : plain ? y.address() : sums.address();
        long width = keeps ? (long) sequence.cell.reserved() * units : rows;
        RecurrentSequence.product((long) sequence.steps * sequence.batch, rows, sequence.inputs)
                .left(in.x().address(), sequence.inputs, 1).right(in.weight().address(), 1, sequence.inputs)
                .result(a, width).bias(in.bias() == null ? 0 : in.bias().address()).run();
        CopyKernels.copy(in.h(), h);
        if (c != null) {
            CopyKernels.copy(in.c(), c);
        }
        sequence.share((from, to) -> steps((int) from, (int) (to - from), a, width));
        if (sums != null) {
            HostAllocator.shared().free(sums);
        }
        sequence.close();
    }

    /** Goes through all steps of {@code n} sequences. */
    private void steps(int from, int n, long a, long width) {
        Block sums = HostAllocator.shared().allocate(4L * n * rows);
        try {
            long state = h.address() + 4L * from * units;
            Matmul product = RecurrentSequence.product(n, rows, units).left(state, units, 1)
                    .right(in.recurrentWeight().address(), 1, units).result(sums.address(), rows)
                    .bias(in.recurrentBias() == null ? 0 : in.recurrentBias().address());
            FusedLoop cell = RecurrentCells.forward(sequence.cell, keeps, sequence.masked());
            long[] dims = {n, units};
            for (int i = 0; i < sequence.steps; i++) {
                product.run();
                Launch launch = Launch.of(cell);
                launch.shape(dims);
                give(launch, dims, sequence.step(i), from, sequence.at(a, sequence.step(i), from, width), width,
                        sums.address());
                launch.runStrided();
            }
        } finally {
            HostAllocator.shared().free(sums);
        }
    }

    private void give(Launch launch, long[] dims, int t, int from, long a, long width, long u) {
        long[] wide = {width, 1};
        long[] gates = {rows, 1};
        long[] narrow = {units, 1};
        int k = 0;
        for (int g = 0; g < sequence.cell.gates(); g++) {
            launch.operand(k++, a + 4L * g * units, dims, wide);
        }
        for (int g = 0; g < sequence.cell.gates(); g++) {
            launch.operand(k++, u + 4L * g * units, dims, gates);
        }
        long offset = 4L * from * units;
        launch.operand(k++, h.address() + offset, dims, narrow);
        if (c != null) {
            launch.operand(k++, c.address() + offset, dims, narrow);
        }
        if (sequence.masked()) {
            launch.operand(k++, sequence.present(t, from), new long[] {dims[0], 1}, new long[] {1, 1});
        }
        for (int g = 0; keeps && g < sequence.cell.reserved(); g++) {
            launch.operand(k++, a + 4L * g * units, dims, wide);
        }
        launch.operand(k++, h.address() + offset, dims, narrow);
        if (c != null) {
            launch.operand(k++, c.address() + offset, dims, narrow);
        }
        launch.operand(k, sequence.at(y.address(), t, from, units), dims, narrow);
    }
}
