package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence.Cell;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The gradients of a {@link Recurrence}, composed step by step of differentiable operations: for higher derivatives,
 * and if no reserve was kept. The gates of each step are computed again.
 */
final class UnrolledRecurrence {
    private final Recurrence.Forward op;
    private final Backward b;
    private final Recurrence.Operands<Tensor> in;
    /** The input, with 0 in place of the steps that a sequence lacks. */
    private final Tensor x;
    private final int steps;
    private final int units;
    /** For each step in order of time: the states before it, its gates, and the gradients that arrive at these. */
    private final Tensor[] before;
    private final Tensor[] cellBefore;
    private final Tensor[][] gates;
    private final Tensor[] slopes;
    private final Tensor[] recurrentSlopes;
    private Tensor dh;
    private @Nullable Tensor dc;

    UnrolledRecurrence(Recurrence.Forward op, Backward b) {
        this.op = op;
        this.b = b;
        in = op.operands(b.inputs());
        steps = Math.toIntExact(in.x().size(0));
        x = withoutPadding(in.x(), in.lengths());
        units = Math.toIntExact(in.h().size(1));
        before = new Tensor[steps];
        cellBefore = new Tensor[steps];
        gates = new Tensor[steps][];
        slopes = new Tensor[steps];
        recurrentSlopes = new Tensor[steps];
        dh = b.grad(1);
        dc = in.c() == null ? null : b.grad(2);
    }

    /** Returns the gradients of all operands, {@code null} for lengths. */
    Tensor[] gradients() {
        forward();
        for (int i = steps - 1; i >= 0; i--) {
            backward(step(i));
        }
        Tensor[] all = new Tensor[b.inputs().length];
        all[1] = dh;
        int w = 2;
        if (dc != null) {
            all[w++] = dc;
        }
        if (steps == 0) {
            for (int i = 0; i < all.length; i++) {
                boolean weight = i >= w && b.in(i) != in.lengths();
                all[i] = i == 0 || weight ? b.in(i).zerosLike() : all[i];
            }
            return all;
        }
        Tensor g = Tensor.stack(0, slopes);
        Tensor u = op.cell() == Cell.GRU ? Tensor.stack(0, recurrentSlopes) : g;
        all[0] = g.matmul(in.weight());
        all[w] = rows(g).t().matmul(rows(x));
        all[w + 1] = rows(u).t().matmul(rows(Tensor.stack(0, before)));
        if (in.bias() != null) {
            all[w + 2] = g.sum(false, 0, 1);
            all[w + 3] = u.sum(false, 0, 1);
        }
        return all;
    }

    /** Padding may be NaN or infinite, and its products with gradients that are 0 would be NaN. */
    private static Tensor withoutPadding(Tensor x, @Nullable Tensor lengths) {
        if (lengths == null) {
            return x;
        }
        Tensor step = Tensor.arange(lengths.spec().with(Shape.of(x.size(0))), 0, 1).unsqueeze(1);
        return Where.select(step.lt(lengths).unsqueeze(2), x, null);
    }

    private static Tensor rows(Tensor x) {
        return x.reshape(x.size(0) * x.size(1), x.size(2));
    }

    /** Returns the step that is processed {@code i}-th. */
    private int step(int i) {
        return op.reverse() ? steps - 1 - i : i;
    }

    private Tensor at(Tensor x, int t) {
        return x.narrow(0, t, 1).squeeze(0);
    }

    private Tensor gate(Tensor x, int which) {
        return x.narrow(1, (long) which * units, units);
    }

    /** Returns {@code computed} for sequences that have step {@code t}, and {@code instead} for the others. */
    private Tensor present(int t, Tensor computed, @Nullable Tensor instead) {
        return in.lengths() == null ? computed : Where.select(in.lengths().gt(t).unsqueeze(1), computed, instead);
    }

    private void forward() {
        Tensor inputs = x.matmul(in.weight().t());
        inputs = in.bias() == null ? inputs : inputs.add(in.bias());
        Tensor h = in.h();
        Tensor c = in.c();
        for (int i = 0; i < steps; i++) {
            int t = step(i);
            before[t] = h;
            cellBefore[t] = c;
            Tensor a = at(inputs, t);
            Tensor u = h.matmul(in.recurrentWeight().t());
            u = in.recurrentBias() == null ? u : u.add(in.recurrentBias());
            Tensor sum = a.add(u);
            switch (op.cell()) {
                case TANH, RELU -> {
                    gates[t] = new Tensor[] {op.cell() == Cell.TANH ? sum.tanh() : sum.relu()};
                    h = present(t, gates[t][0], h);
                }
                case GRU -> {
                    Tensor r = gate(sum, 0).sigmoid();
                    Tensor z = gate(sum, 1).sigmoid();
                    Tensor n = gate(a, 2).add(r.mul(gate(u, 2))).tanh();
                    gates[t] = new Tensor[] {r, z, n, gate(u, 2)};
                    h = present(t, n.add(z.mul(h.sub(n))), h);
                }
                case LSTM -> {
                    Tensor input = gate(sum, 0).sigmoid();
                    Tensor forget = gate(sum, 1).sigmoid();
                    Tensor g = gate(sum, 2).tanh();
                    Tensor o = gate(sum, 3).sigmoid();
                    Tensor cell = Objects.requireNonNull(c);
                    Tensor next = forget.mul(cell).add(input.mul(g));
                    gates[t] = new Tensor[] {input, forget, g, o, next.tanh()};
                    h = present(t, o.mul(gates[t][4]), h);
                    c = present(t, next, cell);
                }
            }
        }
    }

    private void backward(int t) {
        Tensor d = present(t, at(b.grad(0), t).add(dh), null);
        Tensor[] k = gates[t];
        Tensor carried = null;
        switch (op.cell()) {
            case TANH -> slopes[t] = d.mul(k[0].square().neg().add(1));
            case RELU -> slopes[t] = d.mul(k[0].gt(0).to(d.dtype()));
            case GRU -> {
                Tensor dz = d.mul(before[t].sub(k[2])).mul(slope(k[1]));
                Tensor dn = d.sub(d.mul(k[1])).mul(k[2].square().neg().add(1));
                Tensor dr = dn.mul(k[3]).mul(slope(k[0]));
                slopes[t] = Tensor.concat(1, dr, dz, dn);
                recurrentSlopes[t] = Tensor.concat(1, dr, dz, dn.mul(k[0]));
                carried = d.mul(k[1]);
            }
            case LSTM -> {
                Tensor cellSlope = Objects.requireNonNull(dc);
                Tensor dcell = present(t, cellSlope, null).add(d.mul(k[3]).mul(k[4].square().neg().add(1)));
                slopes[t] = Tensor.concat(1, dcell.mul(k[2]).mul(slope(k[0])),
                        dcell.mul(cellBefore[t]).mul(slope(k[1])), dcell.mul(k[0]).mul(k[2].square().neg().add(1)),
                        d.mul(k[4]).mul(slope(k[3])));
                dc = present(t, dcell.mul(k[1]), cellSlope);
            }
        }
        Tensor u = op.cell() == Cell.GRU ? recurrentSlopes[t] : slopes[t];
        Tensor flowing = u.matmul(in.recurrentWeight());
        dh = present(t, carried == null ? flowing : flowing.add(carried), dh);
    }

    /** Returns the slope of a sigmoid, given its value. */
    private static Tensor slope(Tensor y) {
        return y.sub(y.square());
    }
}
