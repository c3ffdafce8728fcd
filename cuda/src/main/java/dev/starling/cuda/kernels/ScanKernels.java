package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Scan;

/**
 * {@link Scan} operations. A line has a block of 256 threads, which sums 1024 elements at a time by shuffles. If long
 * lines are too few to fill the device, they are cut into pieces, whose totals are computed first. If lines are
 * neighbours in memory, each has a thread. Floats are summed in f64.
 */
public final class ScanKernels implements Kernels<Scan> {
    private static final int THREADS = 256;
    private static final int MIN_COLUMNS = 32;
    private static final int MIN_PIECE = 4096;
    private static final int MAX_PIECES = 1024;

    private final Launcher launcher;

    private record ScanKernel(String function, DType type, DType result) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("scan", function, "TX", Types.of(type), "TY", Types.of(result), "A",
                    Types.of(sumType(type)));
        }
    }

    /** Makes the family's kernels for a device. */
    public ScanKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    private static DType sumType(DType type) {
        return type.isFloating() ? DType.F64 : DType.I64;
    }

    @Override
    public Answer compute(Scan op, Tensor[] in, Tensor[] out) {
        return switch (op) {
            case Scan.CumSum(int axis, boolean reverse) -> sum(axis, reverse, in[0], out[0]);
        };
    }

    private Answer sum(int axis, boolean reverse, Tensor x, Tensor y) {
        long size = x.size(axis);
        if (size > Layout.MAX_COUNT || size > 0 && x.count() / size > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        if (x.count() == 0) {
            return Answer.HANDLED;
        }
        Tensor firsts = Rows.firsts(y, axis);
        Layout lines = Layout.of(firsts.shape(), firsts, Rows.firsts(x, axis));
        long count = lines.count();
        if (count >= MIN_COLUMNS && lines.stride(0, lines.rank() - 1) < y.stride(axis)) {
            launch("columns", x, y).i64(begin(y, axis, reverse)).i64(begin(x, axis, reverse))
                    .i64(step(y, axis, reverse)).i64(step(x, axis, reverse)).i32((int) size).layout(lines, 2)
                    .threads(count);
            return Answer.HANDLED;
        }
        long wanted = Math.min(launcher.gpu().processors() * 4L / count, size / MIN_PIECE);
        int pieces = Math.clamp(wanted, 1, MAX_PIECES);
        int length = (int) ((size + pieces - 1) / pieces);
        Tensor totals = pieces == 1 ? null : Storage.allocate(new Spec(sumType(x.dtype()), Shape.of(count * pieces),
                x.device()));
        if (totals != null) {
            Launch launch = launch("totals", x, y).tensor(totals).i64(begin(x, axis, reverse));
            launch.i64(step(x, axis, reverse)).i32((int) size).i32(length).layout(lines, 2)
                    .grid((int) count, pieces, 1, THREADS);
        }
        Launch launch = launch("rows", x, y).i64(begin(y, axis, reverse)).i64(begin(x, axis, reverse)).tensor(totals);
        launch.i64(step(y, axis, reverse)).i64(step(x, axis, reverse)).i32((int) size).i32(length).layout(lines, 2)
                .grid((int) count, pieces, 1, THREADS);
        return Answer.HANDLED;
    }

    private Launch launch(String function, Tensor x, Tensor y) {
        return launcher.launch(new ScanKernel(function, x.dtype(), y.dtype()));
    }

    /** Returns the address of the first line's element at which the running sum begins. */
    private static long begin(Tensor x, int axis, boolean reverse) {
        return x.address() + (reverse ? (x.size(axis) - 1) * x.stride(axis) * x.dtype().bytes() : 0);
    }

    private static long step(Tensor x, int axis, boolean reverse) {
        return reverse ? -x.stride(axis) : x.stride(axis);
    }
}
