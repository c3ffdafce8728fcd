package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import dev.starling.tensor.op.Reduction;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * {@link Recurrence} operations: one product of all steps with the input's weight, then for each step one product with
 * the state's weight and one kernel for the cell. Gradients pass back through the steps in the same way, with one
 * product of all steps for each weight. Lengths are read on the device. Between the steps of 16-bit layers, an LSTM's c
 * and the gradients that bypass the weights are kept in f32; sums of products are rounded to the type.
 *
 * <p>The reserve of a library for gradients has a format of its own. If the library computes a layer and later declines
 * its gradients, the layer is computed again.
 */
public final class RecurrenceKernels implements Kernels<Recurrence> {
    private static final Reduction.Sum OVER_ROWS = new Reduction.Sum(new Axes(1), false);

    private final Launcher launcher;
    private final List<Products> products;
    private final ReductionKernels sums;

    private record RecurrenceKernel(String function, DType type, Cell cell) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("recurrence", function, "T", Types.of(type), "C", Types.wide(type), "CELL",
                    cell.name());
        }
    }

    /**
     * Makes the family's kernels for a device.
     *
     * @param products ways to multiply, the fastest first
     * @param sums the kernels for sums
     */
    public RecurrenceKernels(Launcher launcher, List<Products> products, ReductionKernels sums) {
        this.launcher = launcher;
        this.products = products;
        this.sums = sums;
    }

    @Override
    public Answer compute(Recurrence op, Tensor[] in, Tensor[] out) {
        Recurrence.Operands<Tensor> given = op.operands(in);
        if (!fits(given.x().shape(), given.h().shape())) {
            return Answer.TOO_LARGE;
        }
        Tensor[] dense = new Tensor[in.length];
        for (int i = 0; i < dense.length; i++) {
            dense[i] = in[i] == given.lengths() && in[i].dtype() != DType.I64 ? cast(in[i]) : launcher.dense(in[i]);
        }
        Layer layer = new Layer(op, op.operands(dense));
        switch (op) {
            case Recurrence.Forward _ -> {
                Tensor reserve = out[out.length - 1];
                forward(layer, out, belongsToLibrary(reserve) || reserve.count() == 0 ? null : reserve);
            }
            case Recurrence.Gradient g -> gradients(layer, g, dense, out);
        }
        return Answer.HANDLED;
    }

    /** Returns lengths in i64. */
    private Tensor cast(Tensor lengths) {
        Tensor wide = Storage.allocate(lengths.spec().with(DType.I64));
        launcher.assign(wide, lengths);
        return wide;
    }

    /** Returns whether kernels can index all sequences and units. */
    public static boolean fits(Shape x, Shape h) {
        return x.dim(0) * x.dim(1) <= Layout.MAX_COUNT && h.count() <= Layout.MAX_COUNT;
    }

    /** Returns whether a reserve is in the library's format, which is opaque. */
    public static boolean belongsToLibrary(Tensor reserve) {
        return reserve.dtype() == DType.U8;
    }

    private void multiply(Tensor a, Tensor b, Tensor y) {
        Products.multiply(products, Multiplication.of(a, b, y));
    }

    /** A layer with dense operands, and lengths in i64. */
    private record Layer(Recurrence op, Recurrence.Operands<Tensor> in) {
        int steps() {
            return Math.toIntExact(in.x().size(0));
        }

        long rows() {
            return in.x().size(0) * in.x().size(1);
        }

        long gates() {
            return in.weight().size(0);
        }

        /** Returns the {@code i}-th step in the layer's order; short sequences skip the steps that they lack. */
        int step(int i) {
            return op.reverse() ? steps() - 1 - i : i;
        }

        Tensor allocate(long... dims) {
            return Storage.allocate(in.x().spec().with(Shape.of(dims)));
        }

        /** Appends the struct {@code Sizes}. */
        Launch sizes(Launch launch) {
            return launch.i32(steps()).i32((int) in.h().size(0)).i32((int) in.h().size(1));
        }
    }

    private Launch launch(String function, Layer layer) {
        return launcher.launch(new RecurrenceKernel(function, layer.in.x().dtype(), layer.op.cell()));
    }

    private static Tensor matrix(Tensor x, long rows, long columns, long from) {
        return Relabelled.view(x, Shape.of(rows, columns), new long[] {columns, 1}, x.offset() + from * columns);
    }

    private static Tensor transposed(Tensor x, long rows, long columns) {
        return Relabelled.view(x, Shape.of(columns, rows), new long[] {1, columns}, x.offset());
    }

    private void gradients(Layer layer, Recurrence.Gradient op, Tensor[] all, Tensor[] out) {
        Recurrence.Operands<Tensor> in = layer.in;
        int kept = in.c() == null ? 3 : 4;
        if (!belongsToLibrary(all[kept])) {
            backward(layer, op, all, out);
        } else {
            // Only the library can read its reserve, so the layer is computed again.
            try (Tensor y = Storage.allocate(all[0].spec()); Tensor h = Storage.allocate(in.h().spec());
                    Tensor c = in.c() == null ? null : Storage.allocate(in.c().spec());
                    Tensor reserve = layer.allocate(layer.steps(), in.h().size(0),
                            op.cell().reserved() * in.h().size(1))) {
                forward(layer, new Tensor[] {y, h, c}, op.cell().reserved() == 0 ? null : reserve);
                Tensor[] known = all.clone();
                known[kept] = reserve;
                backward(layer, op, known, out);
            }
        }
    }

    /** Writes the first results, and the reserve unless it is {@code null}. */
    private void forward(Layer layer, @Nullable Tensor[] out, @Nullable Tensor reserve) {
        Recurrence.Operands<Tensor> in = layer.in;
        Tensor h = Objects.requireNonNull(out[1]);
        launcher.assign(h, in.h());
        Tensor cell = in.c();
        Tensor last = cell == null ? null : out[2];
        Tensor c = cell == null || last == null ? null : state(cell, last);
        if (layer.rows() > 0 && h.count() > 0) {
            long batch = in.h().size(0);
            long inputs = in.x().size(2);
            try (Tensor a = layer.allocate(layer.rows(), layer.gates());
                    Tensor u = layer.allocate(batch, layer.gates())) {
                multiply(matrix(in.x(), layer.rows(), inputs, 0),
                        transposed(in.weight(), layer.gates(), inputs), a);
                Tensor weight = transposed(in.recurrentWeight(), layer.gates(), in.h().size(1));
                for (int i = 0; i < layer.steps(); i++) {
                    multiply(h, weight, u);
                    layer.sizes(launch("step", layer).tensor(out[0]).tensor(h).tensor(c).tensor(reserve).tensor(a)
                            .tensor(u).tensor(in.bias()).tensor(in.recurrentBias()).tensor(in.lengths())
                            .i32(layer.step(i))).threads(h.count());
                }
            }
        }
        if (c != null && last != null && c != last) {
            launcher.assign(last, c);
            c.close();
        }
    }

    /**
     * Returns a tensor that holds a state between steps, set to its start: {@code to} itself if its type is wide
     * enough.
     */
    private Tensor state(Tensor from, Tensor to) {
        DType type = Types.sums(to.dtype());
        Tensor state = to.dtype() == type ? to : Storage.allocate(new Spec(type, to.shape(), to.device()));
        launcher.assign(state, from);
        return state;
    }

    /** Operands are the gradients of y, h and for an LSTM c, then y and the reserve, then the layer's operands. */
    private void backward(Layer layer, Recurrence.Gradient op, Tensor[] all, Tensor[] out) {
        Recurrence.Operands<Tensor> in = layer.in;
        int states = in.c() == null ? 1 : 2;
        Tensor dh = out[1];
        Tensor carried = state(all[1], dh);
        Tensor dc = states == 1 ? null : state(all[2], out[2]);
        try (Tensor slopes = layer.allocate(layer.rows(), layer.gates());
                Tensor others = op.cell() == Cell.GRU ? layer.allocate(layer.rows(), layer.gates()) : null;
                Tensor before = layer.allocate(layer.rows(), in.h().size(1));
                Tensor flow = layer.allocate(in.h().shape().dims())) {
            Tensor recurrent = others == null ? slopes : others;
            if (slopes.count() > 0) {
                steps(layer, all, carried, dc, slopes, recurrent, before, flow);
                layer.sizes(launch("join", layer).tensor(dh).tensor(carried).tensor(flow)).threads(dh.count());
            } else {
                launcher.assign(dh, carried);
            }
            if (op.input()) {
                long inputs = in.x().size(2);
                multiply(slopes, in.weight(), matrix(out[0], layer.rows(), inputs, 0));
            }
            Tensor x = present(layer);
            multiply(transposed(slopes, layer.rows(), layer.gates()),
                    matrix(x, layer.rows(), x.size(2), 0), out[states + 1]);
            multiply(transposed(recurrent, layer.rows(), layer.gates()), before, out[states + 2]);
            if (in.bias() != null) {
                sums.compute(OVER_ROWS, slopes, out[states + 3]);
                if (others == null) {
                    launcher.assign(out[states + 4], out[states + 3]);
                } else {
                    sums.compute(OVER_ROWS, recurrent, out[states + 4]);
                }
            }
        }
        if (dc != null && dc != out[2]) {
            launcher.assign(out[2], dc);
            dc.close();
        }
    }

    /** Returns x with zeros past the sequences' ends: infinity or NaN there, times a slope of 0, would be NaN. */
    private Tensor present(Layer layer) {
        Tensor x = layer.in.x();
        if (layer.in.lengths() == null || x.count() == 0) {
            return x;
        }
        Tensor copy = Storage.allocate(x.spec());
        layer.sizes(launch("present", layer).tensor(copy).tensor(x).tensor(layer.in.lengths())
                .i32(Math.toIntExact(x.size(2))).align(4)).threads(x.count());
        return copy;
    }

    private void steps(Layer layer, Tensor[] all, Tensor carried, @Nullable Tensor dc, Tensor slopes,
            Tensor recurrent, Tensor before, Tensor flow) {
        Recurrence.Operands<Tensor> in = layer.in;
        int states = in.c() == null ? 1 : 2;
        long batch = in.h().size(0);
        for (int i = layer.steps() - 1; i >= 0; i--) {
            int t = layer.step(i);
            layer.sizes(launch("gradient", layer).tensor(slopes).tensor(recurrent).tensor(before).tensor(carried)
                    .tensor(dc).tensor(i == layer.steps() - 1 ? null : flow).tensor(all[0]).tensor(all[states + 1])
                    .tensor(all[states + 2]).tensor(in.h()).tensor(in.c()).tensor(in.lengths()).i32(t)
                    .bool(layer.op.reverse()).align(4)).threads(carried.count());
            multiply(matrix(recurrent, batch, layer.gates(), t * batch), in.recurrentWeight(), flow);
        }
    }
}
