package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.spi.Strides;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** {@link Attention} by Starling's kernels, which keep tiles of scores in shared memory and read any strides. */
public final class AttentionKernels implements Kernels<Attention> {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    private static final int MAX_ROWS_OF_BLOCKS = 65_535;
    /** The most tiles of a result's columns that one block computes; more do not fit into registers. */
    private static final int MAX_CHUNKS = 2;
    private static final int WARP = 32;

    private final Launcher launcher;

    private record AttentionKernel(String function, DType type, int chunks) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of(function.equals("attention") ? "attention" : "attention_gradient", function,
                    "T", Types.of(type), "C", Types.wide(type), "CHUNKS", chunks);
        }
    }

    /** Makes the family's kernels for a device. */
    public AttentionKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    @Override
    public Tensor[] allocate(Attention op, Tensor[] in, Spec[] outputs) {
        return results(op, in, outputs);
    }

    /** Allocates results whose heads lie as those of the queries do; gradients are row-major. */
    public static Tensor[] results(Attention op, Tensor[] in, Spec[] outputs) {
        Tensor[] out = new Tensor[outputs.length];
        for (int i = 0; i < out.length; i++) {
            boolean likeQueries = i == 0 && op instanceof Attention.ScaledDotProduct;
            out[i] = likeQueries ? Storage.allocate(outputs[0], Strides.like(in[0], outputs[0].shape()))
                    : Storage.allocate(outputs[i]);
        }
        return out;
    }

    @Override
    public Answer compute(Attention op, Tensor[] in, Tensor[] out) {
        if (out[0].shape().slice(0, out[0].rank() - 1).count() > Layout.MAX_COUNT) {
            return Answer.TOO_LARGE;
        }
        switch (op) {
            case Attention.ScaledDotProduct _ -> forward(new Operands(op, in[0], in[1], in[2],
                    in.length == 4 ? in[3] : null), out[0], out[1]);
            case Attention.ScaledDotProductGradient _ -> backward(new Operands(op, in[1], in[2], in[3],
                    in.length == 7 ? in[6] : null), in[0], in[4], in[5], out);
        }
        return Answer.HANDLED;
    }

    private void forward(Operands in, Tensor y, Tensor logs) {
        if (logs.count() > 0) {
            Layout heads = in.heads(y);
            int chunks = chunks(in.v.size(-1));
            launch("attention", y.dtype(), chunks, in).tensor(y).tensor(logs).i64(in.row(y)).layout(heads, 5)
                    .grid(tiles(in.q), heads(heads), blocks(in.v.size(-1), chunks), TILE_THREADS);
        }
    }

    private void backward(Operands in, Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        if (logs.count() == 0 || in.k.size(-2) == 0) {
            for (Tensor gradient : gradients) {
                launcher.fill(gradient, 0);
            }
            return;
        }
        Tensor rows = launcher.dense(logs);
        Tensor dots = Storage.allocate(logs.spec());
        dots(dots, g, y);
        long width = Math.max(in.q.size(-1), in.v.size(-1));
        int chunks = chunks(width);
        Layout heads = in.heads(g);
        slopes(launch("query_gradients", g.dtype(), chunks, in), g, rows, dots).tensor(gradients[0])
                .layout(heads, 5).grid(tiles(in.q), heads(heads), blocks(in.q.size(-1), chunks), TILE_THREADS);
        slopes(launch("key_gradients", g.dtype(), chunks, in), g, rows, dots).tensor(gradients[1])
                .tensor(gradients[2]).layout(heads, 5)
                .grid(tiles(in.k), heads(heads), blocks(width, chunks), TILE_THREADS);
    }

    private void dots(Tensor dots, Tensor g, Tensor y) {
        int last = g.rank() - 1;
        Layout queries = Layout.rowMajor(dots.shape(), Relabelled.view(g, dots.shape(), lead(g), g.offset()),
                Relabelled.view(y, dots.shape(), lead(y), y.offset()));
        launcher.launch(new AttentionKernel("dots", g.dtype(), 1)).tensor(dots).tensor(g).tensor(y)
                .i64(g.stride(last)).i64(y.stride(last)).i64(g.size(last)).layout(queries, 2)
                .threads(dots.count() * WARP);
    }

    private static long[] lead(Tensor x) {
        return Arrays.copyOf(x.sharedStrides(), x.rank() - 1);
    }

    private Launch launch(String function, DType type, int chunks, Operands in) {
        return in.pass(launcher.launch(new AttentionKernel(function, type, chunks)));
    }

    private static Launch slopes(Launch launch, Tensor g, Tensor logs, Tensor dots) {
        int row = g.rank() - 2;
        return launch.tensor(g).i64(g.stride(row)).i64(g.stride(row + 1)).tensor(logs).tensor(dots);
    }

    private static int tiles(Tensor x) {
        return Math.toIntExact(Math.ceilDiv(x.size(-2), (long) TILE));
    }

    private static int heads(Layout heads) {
        return (int) Math.min(heads.count(), MAX_ROWS_OF_BLOCKS);
    }

    private static int chunks(long width) {
        return Math.clamp(Math.ceilDiv(width, (long) TILE), 1, MAX_CHUNKS);
    }

    private static int blocks(long width, int chunks) {
        return (int) Math.max(1, Math.ceilDiv(width, (long) TILE * chunks));
    }

    /** The operands that every kernel gets. */
    private record Operands(Attention op, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask) {
        /** Returns the layout of the leading dimensions of a result, or its gradient, q, k, v and the mask. */
        Layout heads(Tensor y) {
            int lead = y.rank() - 2;
            Shape shape = y.shape().slice(0, lead);
            long[][] strides = new long[5][lead];
            @Nullable Tensor[] all = {y, q, k, v, mask};
            for (int i = 0; i < 5; i++) {
                Tensor each = all[i];
                for (int d = 0; each != null && d < lead; d++) {
                    strides[i][d] = Layout.stride(each, d - lead - 2);
                }
            }
            return Layout.rowMajor(shape.dims(), strides);
        }

        long row(Tensor y) {
            return y.stride(y.rank() - 2);
        }

        /** Appends the struct {@code Attention}. */
        Launch pass(Launch launch) {
            launch.tensor(q).tensor(k).tensor(v).tensor(mask);
            for (Tensor x : new Tensor[] {q, k, v}) {
                launch.i64(row(x)).i64(x.stride(x.rank() - 1));
            }
            launch.i64(mask == null ? 0 : Layout.stride(mask, -2)).i64(mask == null ? 0 : Layout.stride(mask, -1));
            launch.i64(q.size(-2)).i64(k.size(-2)).i64(q.size(-1)).i64(v.size(-1)).f64(op.scale());
            return launch.i32(mask == null ? 0 : mask.dtype() == DType.BOOL ? 1 : 2).i32(op.causal() ? 1 : 0);
        }
    }
}
