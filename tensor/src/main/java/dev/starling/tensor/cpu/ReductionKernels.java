package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.Rows;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Reduction} operations on f32. Work is divided by sizes alone and combined in a fixed order, so that
 * every number of threads gives the same bits. Sums run over at most some thousand elements in f32, then in f64.
 */
final class ReductionKernels {
    private static final int ROWS = 1024;
    private static final int CHUNK = 1 << 16;
    /** The most columns in one call of a loop, which counts them with an {@code int}. */
    private static final int COLUMNS = 1 << 30;

    private enum Kind { SUM, MAX, MIN }

    private ReductionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Reduction op, Tensor x, Spec output) {
        if (x.dtype() != DType.F32 || x.count() == 0) {
            return null;
        }
        return switch (op) {
            case Reduction.Sum _, Reduction.Mean _, Reduction.Max _, Reduction.Min _ -> reduce(op, x, output);
            case Reduction.ArgMax _ -> ArgMaxKernels.run(op, x, output, true);
            case Reduction.ArgMin _ -> ArgMaxKernels.run(op, x, output, false);
            case Reduction.Prod _, Reduction.Any _, Reduction.All _ -> null;
        };
    }

    private static Tensor[] reduce(Reduction op, Tensor operand, Spec output) {
        Tensor x = operand;
        ReducedLayout f = ReducedLayout.of(x, op.axes());
        if (!isReadable(f)) {
            x = Layout.dense(operand);
            f = ReducedLayout.of(x, op.axes());
        }
        Tensor y = Storage.allocate(output);
        work(op, Objects.requireNonNull(f), x, y).run();
        Layout.release(x, operand);
        return new Tensor[] {y};
    }

    private static boolean isReadable(@Nullable ReducedLayout f) {
        return f != null && (f.rank == 0 || f.stride[f.rank - 1] == 1);
    }

    /** Prepares what {@link #run} does; {@code null} for other kernels, and if the operand has to be copied. */
    static @Nullable Runnable prepare(Reduction op, Tensor x, Tensor y) {
        boolean reduces = op instanceof Reduction.Sum || op instanceof Reduction.Mean || op instanceof Reduction.Max
                || op instanceof Reduction.Min;
        ReducedLayout f = reduces && x.dtype() == DType.F32 && x.count() > 0 ? ReducedLayout.of(x, op.axes()) : null;
        return isReadable(f) ? work(op, Objects.requireNonNull(f), x, y) : null;
    }

    /** Sums a dense matrix of f32 over its rows, into a dense row. */
    static void sumRows(ReducedLayout f, long x, long y) {
        if (f.count(true, 0) == 1) {
            MemorySegment.copy(ALL, x, ALL, y, 4 * f.count(false, 0));
        } else if (f.reduced[f.rank - 1]) {
            rows(f, x, y, Kind.SUM, 1).run();
        } else {
            new Columns(f, x, y, Kind.SUM, 1).run();
        }
    }

    private static Runnable work(Reduction op, ReducedLayout f, Tensor x, Tensor y) {
        Kind kind = op instanceof Reduction.Max ? Kind.MAX : op instanceof Reduction.Min ? Kind.MIN : Kind.SUM;
        double factor = op instanceof Reduction.Mean ? 1.0 / op.axes().extent(x.shape()) : 1;
        if (f.count(true, 0) == 1) {
            Tensor copy = y.storage().view(y.spec().with(x.shape()), x.shape().sharedStrides(), y.offset());
            return () -> CopyKernels.copy(x, copy);
        }
        return f.reduced[f.rank - 1] ? rows(f, x.address(), y.address(), kind, factor)
                : new Columns(f, x.address(), y.address(), kind, factor);
    }

    /**
     * The innermost dimension is reduced: each row becomes one number, and further rows combine into a result element.
     */
    private static Runnable rows(ReducedLayout f, long x, long y, Kind kind, double factor) {
        long kept = f.count(false, 1);
        long folded = f.count(true, 1);
        long n = f.size[f.rank - 1];
        if (kept == 1 && folded == 1 && n > CHUNK) {
            return whole(x, n, y, kind, factor);
        }
        return new RangeWork(kept, Math.max(1, CHUNK / (n * folded))) {
            @Override
            public void run(long from, long to) {
                for (long k = from; k < to; k++) {
                    long at = x + 4 * f.offset(k, false, 1, false);
                    double total = kind == Kind.SUM ? 0 : reduceRun(kind, at, n);
                    for (long r = kind == Kind.SUM ? 0 : 1; r < folded; r++) {
                        total = combine(kind, total, reduceRun(kind, at + 4 * f.offset(r, true, 1, false), n));
                    }
                    putFloat(y + 4 * f.offset(k, false, 1, true), (float) (total * factor));
                }
            }
        };
    }

    private static Runnable whole(long x, long n, long y, Kind kind, double factor) {
        double[] parts = new double[Math.toIntExact(Math.ceilDiv(n, (long) CHUNK))];
        RangeTask task = (from, to) -> {
            for (long i = from; i < to; i++) {
                parts[(int) i] = reduceRun(kind, x + 4 * i * CHUNK, Math.min(CHUNK, n - i * CHUNK));
            }
        };
        return () -> {
            Parallel.forRange(parts.length, 1, task);
            double total = parts[0];
            for (int i = 1; i < parts.length; i++) {
                total = combine(kind, total, parts[i]);
            }
            putFloat(y, (float) (total * factor));
        };
    }

    private static double reduceRun(Kind kind, long x, long n) {
        return switch (kind) {
            case SUM -> RowLoops.FASTEST.matrix().sum(x, n);
            case MAX -> RowLoops.FASTEST.matrix().extreme(x, n, true);
            case MIN -> RowLoops.FASTEST.matrix().extreme(x, n, false);
        };
    }

    private static double combine(Kind kind, double a, double b) {
        return switch (kind) {
            case SUM -> a + b;
            case MAX -> Math.max(a, b);
            case MIN -> Math.min(a, b);
        };
    }

    /**
     * The innermost dimension is kept: blocks of rows combine into rows of partial results, and those into the result.
     */
    private static final class Columns implements Runnable, RangeTask {
        private final ReducedLayout f;
        private final long x;
        private final long y;
        private final Kind kind;
        private final double factor;
        private final long columns;
        private final int inner;
        private final long rows;
        private final long stride;
        private final long kept;
        private final long blocks;
        private final long parts;
        /** The address of the partial results during a run. */
        private long partial;

        Columns(ReducedLayout f, long x, long y, Kind kind, double factor) {
            this.f = f;
            this.x = x;
            this.y = y;
            this.kind = kind;
            this.factor = factor;
            columns = f.size[f.rank - 1];
            inner = f.reduced[f.rank - 2] ? 2 : 1;
            rows = inner == 2 ? f.size[f.rank - 2] : 1;
            stride = inner == 2 ? 4 * f.stride[f.rank - 2] : 0;
            kept = f.count(false, inner);
            blocks = Math.ceilDiv(rows, (long) ROWS);
            parts = f.count(true, inner) * blocks;
        }

        @Override
        public void run() {
            HostAllocator memory = HostAllocator.shared();
            Block scratch = memory.allocate(4 * kept * parts * columns);
            try {
                partial = scratch.address();
                Parallel.forRange(kept * parts, Math.max(1, CHUNK / (Math.min(rows, ROWS) * columns)), this);
                for (long k = 0; k < kept; k++) {
                    combine(k);
                }
            } finally {
                memory.free(scratch);
            }
        }

        @Override
        public void run(long from, long to) {
            for (long i = from; i < to; i++) {
                long part = i % parts;
                long at = x + 4 * (f.offset(i / parts, false, inner, false)
                        + f.offset(part / blocks, true, inner, false)) + part % blocks * ROWS * stride;
                int n = (int) Math.min(ROWS, rows - part % blocks * ROWS);
                block(kind, at, stride, n, columns, partial + 4 * i * columns);
            }
        }

        private void combine(long k) {
            long step = f.outStride[f.rank - 1];
            long to = y + 4 * f.offset(k, false, inner, true);
            int count = Math.toIntExact(parts);
            for (long c = 0; c < columns; c++) {
                double total = getFloat(partial + 4 * (k * parts * columns + c));
                for (int p = 1; p < count; p++) {
                    total = ReductionKernels.combine(kind, total,
                            getFloat(partial + 4 * ((k * parts + p) * columns + c)));
                }
                putFloat(to + 4 * step * c, (float) (total * factor));
            }
        }
    }

    private static void block(Kind kind, long x, long stride, int rows, long columns, long partial) {
        MemorySegment.copy(ALL, x, ALL, partial, 4 * columns);
        Rows loops = RowLoops.FASTEST.matrix();
        for (long c = 0; c < columns; c += COLUMNS) {
            long from = x + stride + 4 * c;
            long to = partial + 4 * c;
            int n = (int) Math.min(COLUMNS, columns - c);
            switch (kind) {
                case SUM -> loops.columnSums(from, stride, rows - 1, n, to);
                case MAX -> loops.columnExtremes(from, stride, rows - 1, n, to, true);
                case MIN -> loops.columnExtremes(from, stride, rows - 1, n, to, false);
            }
        }
    }
}
