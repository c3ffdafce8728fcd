package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.dnn.AttentionLibrary;
import dev.starling.cuda.dnn.AttentionCall;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.spi.Strides;
import java.util.Arrays;

/**
 * {@link Attention} by a library if it supports the operands, else by Starling's kernels, which keep tiles of scores in
 * shared memory and read operands by their strides.
 */
public final class AttentionKernels {
    private static final int TILE = 64;
    private static final int TILE_THREADS = 256;
    private static final int MAX_ROWS_OF_BLOCKS = 65_535;
    /** The most tiles of a result's columns that one block computes; more do not fit into registers. */
    private static final int MAX_CHUNKS = 2;
    private static final int WARP = 32;

    private final Launcher launcher;
    private final AttentionLibrary library;

    private record AttentionKernel(String function, DType type, int chunks) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of(function.equals("attention") ? "attention" : "attention_gradient", function,
                    "T", Types.of(type), "C", Types.wide(type), "CHUNKS", Integer.toString(chunks));
        }
    }

    /**
     * Makes the family's kernels for a device.
     *
     * @param library the library for attention, or {@code null}
     */
    public AttentionKernels(Launcher launcher, AttentionLibrary library) {
        this.launcher = launcher;
        this.library = library;
    }

    /** Returns the results, or {@code null} if there are too many queries. */
    public Tensor[] run(Attention op, Tensor[] inputs, Spec[] outputs) {
        if (outputs[0].shape().slice(0, outputs[0].shape().rank() - 1).count() > Layout.MAX_COUNT) {
            return null;
        }
        return switch (op) {
            case Attention.ScaledDotProduct _ -> forward(new Operands(op, inputs[0], inputs[1], inputs[2],
                    inputs.length == 4 ? inputs[3] : null), outputs);
            case Attention.ScaledDotProductGradient _ -> backward(new Operands(op, inputs[1], inputs[2], inputs[3],
                    inputs.length == 7 ? inputs[6] : null), inputs[0], inputs[4], inputs[5], outputs);
        };
    }

    private Tensor[] forward(Operands in, Spec[] outputs) {
        Tensor y = Tensor.allocate(outputs[0], Strides.like(in.q, outputs[0].shape()));
        Tensor logs = Tensor.allocate(outputs[1]);
        if (logs.count() > 0 && !byLibrary(in, y, logs)) {
            Layout heads = in.heads(y);
            int chunks = chunks(in.v.size(-1));
            launch("attention", y.dtype(), chunks, in).tensor(y).tensor(logs).i64(in.row(y)).layout(heads, 5)
                    .grid(tiles(in.q), heads(heads), blocks(in.v.size(-1), chunks), TILE_THREADS);
        }
        return new Tensor[] {y, logs};
    }

    private Tensor[] backward(Operands in, Tensor g, Tensor y, Tensor logs, Spec[] outputs) {
        Tensor[] gradients = {Tensor.allocate(outputs[0]), Tensor.allocate(outputs[1]), Tensor.allocate(outputs[2])};
        if (logs.count() == 0 || in.k.size(-2) == 0) {
            for (Tensor gradient : gradients) {
                launcher.fill(gradient, 0);
            }
            return gradients;
        }
        Tensor rows = launcher.dense(logs);
        if (byLibrary(in, g, y, rows, gradients)) {
            close(rows, logs);
            return gradients;
        }
        try (Tensor dots = Tensor.allocate(logs.spec())) {
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
        close(rows, logs);
        return gradients;
    }

    private static void close(Tensor copy, Tensor original) {
        if (copy != original) {
            copy.close();
        }
    }

    private boolean byLibrary(Operands in, Tensor y, Tensor logs) {
        AttentionCall call = library == null ? null : in.call(library, y, null);
        if (call == null || !library.supportsForward(call)) {
            return false;
        }
        try (AdditiveMask mask = mask(in, call)) {
            boolean done = library.forward(call, in.at(mask, y, logs));
            if (done && mask != null) {
                mask.close(y, logs, call);
            }
            return done;
        }
    }

    private AdditiveMask mask(Operands in, AttentionCall call) {
        return call.mask() == null ? null : AdditiveMask.of(launcher, in.mask, call);
    }

    private boolean byLibrary(Operands in, Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        AttentionCall call = library == null ? null : in.call(library, y, g);
        if (call == null || !library.supportsBackward(call)) {
            return false;
        }
        Spec slopes = logs.spec().with(logs.shape().concat(Shape.of(in.q.size(-1))));
        boolean padded = library.needsLengths(call);
        boolean masked = call.mask() != null;
        try (Tensor sums = Tensor.allocate(logs.spec()); Tensor work = Tensor.allocate(slopes);
                Tensor queries = padded ? lengths(call, call.queries(), in.q) : null;
                Tensor keys = padded ? lengths(call, call.keys(), in.q) : null; AdditiveMask mask = mask(in, call);
                Tensor negated = masked ? AdditiveMask.negated(launcher, logs) : null) {
            return library.backward(call, in.at(mask, y, masked ? negated : logs), new AttentionLibrary.Gradients(
                    g.address(), gradients[0].address(), gradients[1].address(), gradients[2].address(), sums.address(),
                    work.address(), padded ? queries.address() : 0, padded ? keys.address() : 0));
        }
    }

    /** Returns the lengths of all sequences, none of which is padded. */
    private Tensor lengths(AttentionCall call, long length, Tensor like) {
        Tensor lengths = Tensor.allocate(new Spec(DType.I32, Shape.of(call.batch()), like.device()));
        launcher.fill(lengths, length);
        return lengths;
    }

    private void dots(Tensor dots, Tensor g, Tensor y) {
        int last = g.rank() - 1;
        Layout queries = Layout.rowMajor(dots.shape(), Relabelled.view(g, dots.shape(), lead(g), 0),
                Relabelled.view(y, dots.shape(), lead(y), 0));
        launcher.launch(new AttentionKernel("dots", g.dtype(), 1)).tensor(dots).tensor(g).tensor(y)
                .i64(g.strides()[last]).i64(y.strides()[last]).i64(g.size(last)).layout(queries, 2)
                .threads(dots.count() * WARP);
    }

    private static long[] lead(Tensor x) {
        return Arrays.copyOf(x.strides(), x.rank() - 1);
    }

    private Launch launch(String function, DType type, int chunks, Operands in) {
        return in.pass(launcher.launch(new AttentionKernel(function, type, chunks)));
    }

    private static Launch slopes(Launch launch, Tensor g, Tensor logs, Tensor dots) {
        int row = g.rank() - 2;
        return launch.tensor(g).i64(g.strides()[row]).i64(g.strides()[row + 1]).tensor(logs).tensor(dots);
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
    private record Operands(Attention op, Tensor q, Tensor k, Tensor v, Tensor mask) {
        /** Returns the layout of the leading dimensions of a result, or its gradient, q, k, v and the mask. */
        Layout heads(Tensor y) {
            int lead = y.rank() - 2;
            Shape shape = y.shape().slice(0, lead);
            long[][] strides = new long[5][lead];
            Tensor[] all = {y, q, k, v, mask};
            for (int i = 0; i < 5; i++) {
                for (int d = 0; all[i] != null && d < lead; d++) {
                    strides[i][d] = stride(all[i], d - lead - 2);
                }
            }
            return Layout.rowMajor(shape.dims(), strides);
        }

        private static long stride(Tensor x, int fromEnd) {
            int axis = x.rank() + fromEnd;
            return axis < 0 || x.size(axis) == 1 ? 0 : x.strides()[axis];
        }

        long row(Tensor y) {
            return y.strides()[y.rank() - 2];
        }

        /** Returns the call of a library, or {@code null} if the operands do not suit it. */
        AttentionCall call(AttentionLibrary library, Tensor y, Tensor g) {
            if (y.rank() > 4 || y.count() == 0 || k.count() == 0 || !library.supports(q.dtype())) {
                return null;
            }
            AttentionCall.Rows[] rows = new AttentionCall.Rows[5];
            Tensor[] all = {q, k, v, y, g};
            for (int i = 0; i < 5; i++) {
                rows[i] = all[i] == null ? null : rows(all[i], y.rank());
                if (all[i] != null && rows[i] == null) {
                    return null;
                }
            }
            AttentionCall.Rows added = mask == null ? null : AdditiveMask.rows(mask, q, q.size(-2), k.size(-2));
            if (mask != null && added == null) {
                return null;
            }
            return new AttentionCall(q.dtype(), y.rank() < 4 ? 1 : y.size(0), y.rank() < 3 ? 1 : y.size(-3),
                    q.size(-2), k.size(-2), q.size(-1), v.size(-1), (float) op.scale(), op.causal(), rows[0], rows[1],
                    rows[2], rows[3], rows[4], added);
        }

        /** Returns the operands' addresses. */
        AttentionLibrary.Operands at(AdditiveMask added, Tensor y, Tensor logs) {
            return new AttentionLibrary.Operands(q.address(), k.address(), v.address(),
                    added == null ? 0 : added.address(), y.address(), logs.address());
        }

        /**
         * Returns an operand's strides, or {@code null} unless heads do not overlap and rows begin at 16-byte
         * multiples.
         */
        private AttentionCall.Rows rows(Tensor x, int rank) {
            long unit = 16 / x.dtype().bytes();
            boolean fits = x.rank() == rank && x.strides()[rank - 1] == 1 && x.size(-1) % unit == 0
                    && x.address() % 16 == 0;
            for (int d = 0; fits && d < rank - 1; d++) {
                boolean repeats = d < rank - 2 && x.size(d) != q.size(d);
                fits = !repeats && x.strides()[d] > 0 && (x.size(d) == 1 || x.strides()[d] % unit == 0);
            }
            return !fits ? null : new AttentionCall.Rows(rank < 4 ? x.size(-2) * x.size(-1) : x.strides()[0],
                    rank < 3 ? x.size(-2) * x.size(-1) : x.strides()[rank - 3], x.strides()[rank - 2]);
        }

        /** Appends the struct {@code Attention}. */
        Launch pass(Launch launch) {
            launch.tensor(q).tensor(k).tensor(v).tensor(mask);
            for (Tensor x : new Tensor[] {q, k, v}) {
                launch.i64(row(x)).i64(x.strides()[x.rank() - 1]);
            }
            launch.i64(mask == null ? 0 : stride(mask, -2)).i64(mask == null ? 0 : stride(mask, -1));
            launch.i64(q.size(-2)).i64(k.size(-2)).i64(q.size(-1)).i64(v.size(-1)).f64(op.scale());
            return launch.i32(mask == null ? 0 : mask.dtype() == DType.BOOL ? 1 : 2).i32(op.causal() ? 1 : 0);
        }
    }
}
