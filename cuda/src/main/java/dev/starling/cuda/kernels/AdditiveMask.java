package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import java.util.Objects;
import java.util.Optional;

/**
 * An attention mask in the form that libraries accept: added to the scores, of the operands' type, with rows at
 * multiples of 16 bytes. Libraries leave the result of a row undefined if all its scores are -∞. Such a row is masked
 * with zeros instead, and its results are replaced afterwards.
 */
public final class AdditiveMask {
    /** The largest mask; Starling's own kernels handle larger ones, which they read in place. */
    private static final long MAX_BYTES = 1L << 28;
    private static final int UNIT = 8;
    private static final int WARP = 32;

    private final Launcher launcher;
    private final Tensor added;
    /** One element for each row, 0 if the row attends to nothing. */
    private final Tensor open;

    private record MaskKernel(String function, DType type) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("attentionmask", function, "T", Types.of(type));
        }
    }

    private AdditiveMask(Launcher launcher, Tensor added, Tensor open) {
        this.launcher = launcher;
        this.added = added;
        this.open = open;
    }

    /** Returns the strides of a call's mask, or nothing if the mask would be too large. */
    static Optional<AttentionCall.Rows> rows(Tensor mask, Tensor q, long queries, long keys) {
        long row = Math.ceilDiv(keys, (long) UNIT) * UNIT;
        long head = Math.multiplyExact(queries, row);
        long heads = Layout.stride(mask, -3) == 0 ? 1 : mask.size(mask.rank() - 3);
        long batch = Layout.stride(mask, -4) == 0 ? 1 : mask.size(mask.rank() - 4);
        return Math.multiplyExact(Math.multiplyExact(head, heads), batch) * q.dtype().bytes() > MAX_BYTES
                ? Optional.empty()
                : Optional.of(new AttentionCall.Rows(batch == 1 ? 0 : heads * head, heads == 1 ? 0 : head, row));
    }

    /** Computes the mask of a call. */
    public static AdditiveMask of(Launcher launcher, Tensor mask, AttentionCall call) {
        AttentionCall.Rows strides = Objects.requireNonNull(call.mask());
        long batch = strides.batch() == 0 ? 1 : call.batch();
        long heads = strides.head() == 0 ? 1 : call.heads();
        long[] sizes = {batch, heads, call.queries()};
        Tensor added = Storage.allocate(new Spec(call.type(), Shape.of(batch, heads, call.queries(), strides.row()),
                mask.device()));
        Tensor open = Storage.allocate(new Spec(DType.U8, Shape.of(sizes), mask.device()));
        Layout rows = Layout.rowMajor(sizes, new long[] {batch == 1 ? 0 : Layout.stride(mask, -4),
            heads == 1 ? 0 : Layout.stride(mask, -3), Layout.stride(mask, -2)});
        launcher.launch(new MaskKernel("additive", call.type())).tensor(added).tensor(open).tensor(mask)
                .i64(call.queries()).i64(call.keys()).i64(strides.row()).i64(Layout.stride(mask, -1))
                .i32(mask.dtype() == DType.BOOL ? 1 : 2).i32(call.causal() ? 1 : 0).layout(rows, 1)
                .threads(open.count() * WARP);
        return new AdditiveMask(launcher, added, open);
    }

    /** Returns the mask. */
    public Tensor added() {
        return added;
    }

    /** Sets results of rows that attend to nothing to 0, and their log-sum-exp to -∞. */
    public void close(Tensor y, Tensor logs, AttentionCall call) {
        long[] sizes = {call.batch(), call.heads(), call.queries()};
        long head = call.queries();
        AttentionCall.Rows mask = Objects.requireNonNull(call.mask());
        long batch = mask.head() == 0 ? head : head * call.heads();
        Layout rows = Layout.rowMajor(sizes, new long[] {call.y().batch(), call.y().head(), call.y().row()},
                new long[] {mask.batch() == 0 ? 0 : batch, mask.head() == 0 ? 0 : head, 1});
        launcher.launch(new MaskKernel("closed", call.type())).tensor(y).tensor(logs).tensor(open).i64(call.depth())
                .layout(rows, 2).threads(logs.count() * WARP);
    }

    /** Returns a copy of log-sum-exps with -∞ replaced by +∞, so that the weights of such rows are 0. */
    public static Tensor negated(Launcher launcher, Tensor logs) {
        Tensor negated = Storage.allocate(logs.spec());
        launcher.elementwise().apply("a < C(-3.4028235e38f) ? -a : a", new double[0], negated, logs);
        return negated;
    }
}
