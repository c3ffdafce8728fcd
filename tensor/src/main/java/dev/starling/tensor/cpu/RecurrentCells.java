package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.op.Recurrence.Cell;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The elementwise part of a recurrent step, between its products, in f32: one generated loop for each cell. */
final class RecurrentCells {
    private static final DType F = DType.F32;
    private static final ConcurrentHashMap<List<Object>, FusedLoop> LOOPS = new ConcurrentHashMap<>();

    private final Expression.Builder b = new Expression.Builder();

    private RecurrentCells() {
    }

    /**
     * Returns the loop of a forward step. Inputs: the gates' summed products by x and h, for a GRU those by x and then
     * those by h; for a GRU or if masked the state h; for an LSTM the cell c; if masked, whether the sequence has the
     * step. Outputs: the values to keep, if any are kept; if masked h; for an LSTM c, if masked or if no values are
     * kept; and y. (The JVM's compiler gives up on a loop that computes much more.)
     */
    static FusedLoop forward(Cell cell, boolean keeps, boolean masked) {
        List<Object> key = List.of(cell, keeps, masked);
        FusedLoop known = LOOPS.get(key);
        if (known != null) {
            return known;
        }
        RecurrentCells cells = new RecurrentCells();
        cells.step(cell, keeps, masked);
        return cells.loop(key);
    }

    /**
     * Returns the loop of a step's gradient. Inputs: the values kept, or else y; the gradients of y and of h; for a GRU
     * the state h before the step; for an LSTM the gradient of c, and c before the step; if masked, whether the
     * sequence has the step, whether it is its first, and for a GRU and an LSTM the first h or c. Outputs: the
     * gradients of the gates' sums by x and, for a GRU, of those by h; for an LSTM that of c before the step; for a GRU
     * or if masked, that of h before the step, without the contribution through the weights.
     */
    static FusedLoop backward(Cell cell, boolean masked) {
        List<Object> key = List.of(cell, masked);
        FusedLoop known = LOOPS.get(key);
        if (known != null) {
            return known;
        }
        RecurrentCells cells = new RecurrentCells();
        cells.gradient(cell, masked);
        return cells.loop(key);
    }

    private FusedLoop loop(List<Object> key) {
        FusedLoop loop = FusedLoop.of(b.build());
        LOOPS.put(key, loop);
        return loop;
    }

    private Value[] inputs(int n) {
        Value[] all = new Value[n];
        for (int i = 0; i < n; i++) {
            all[i] = b.input(F);
        }
        return all;
    }

    private Value mul(Value x, Value y) {
        return b.apply(Opcode.MUL, x, y);
    }

    private Value add(Value x, Value y) {
        return b.apply(Opcode.ADD, x, y);
    }

    private Value sub(Value x, Value y) {
        return b.apply(Opcode.SUB, x, y);
    }

    private Value fma(Value x, Value y, Value z) {
        return b.apply(Opcode.FMA, x, y, z);
    }

    private Value choose(@Nullable Value mask, Value x, Value y) {
        return mask == null ? x : b.apply(Opcode.WHERE, mask, x, y);
    }

    private void step(Cell cell, boolean keeps, boolean masked) {
        boolean gru = cell == Cell.GRU;
        Value[] a = inputs(cell.gates());
        Value[] u = inputs(gru ? cell.gates() : 0);
        Value h = gru || masked ? b.input(F) : null;
        Value c = cell == Cell.LSTM ? b.input(F) : null;
        Value mask = masked ? b.input(DType.BOOL) : null;
        Value zero = b.constant(F, 0);
        Value[] kept = {};
        Value next;
        Value nextCell = null;
        switch (cell) {
            case TANH -> next = b.apply(Opcode.TANH, a[0]);
            case RELU -> next = b.apply(Opcode.RELU, a[0]);
            case GRU -> {
                Value r = b.apply(Opcode.SIGMOID, add(a[0], u[0]));
                Value z = b.apply(Opcode.SIGMOID, add(a[1], u[1]));
                Value n = b.apply(Opcode.TANH, fma(r, u[2], a[2]));
                next = fma(z, sub(Objects.requireNonNull(h), n), n);
                kept = new Value[] {r, z, n, u[2]};
            }
            case LSTM -> {
                Value i = b.apply(Opcode.SIGMOID, a[0]);
                Value f = b.apply(Opcode.SIGMOID, a[1]);
                Value g = b.apply(Opcode.TANH, a[2]);
                Value o = b.apply(Opcode.SIGMOID, a[3]);
                nextCell = fma(f, Objects.requireNonNull(c), mul(i, g));
                next = mul(o, b.apply(Opcode.TANH, nextCell));
                kept = new Value[] {i, f, g, o, nextCell};
            }
            default -> throw new IllegalArgumentException(cell.toString());
        }
        for (int i = 0; keeps && i < kept.length; i++) {
            b.output(choose(mask, kept[i], zero));
        }
        if (masked) {
            b.output(choose(mask, next, Objects.requireNonNull(h)));
        }
        if (c != null && nextCell != null && (masked || !keeps)) {
            b.output(choose(mask, nextCell, c));
        }
        b.output(choose(mask, next, zero));
    }

    private void gradient(Cell cell, boolean masked) {
        boolean plain = cell.reserved() == 0;
        Value[] k = inputs(plain ? 1 : cell.reserved());
        Value dy = b.input(F);
        Value dh = b.input(F);
        Value dc = cell == Cell.LSTM ? b.input(F) : null;
        Value before = plain ? null : b.input(F);
        Value mask = masked ? b.input(DType.BOOL) : null;
        if (masked && !plain) {
            Value first = b.input(DType.BOOL);
            before = choose(first, b.input(F), Objects.requireNonNull(before));
        }
        Value zero = b.constant(F, 0);
        // A sequence without steps does not read its state, which may be infinite or NaN.
        before = before == null ? null : choose(mask, before, zero);
        Value d = choose(mask, add(dy, dh), zero);
        Value carried = zero;
        switch (cell) {
            case TANH -> b.output(b.apply(Opcode.TANH_GRADIENT, k[0], d));
            case RELU -> b.output(b.apply(Opcode.RELU_GRADIENT, k[0], d));
            case GRU -> {
                carried = mul(d, k[1]);
                Value dz = b.apply(Opcode.SIGMOID_GRADIENT, k[1], mul(d, sub(Objects.requireNonNull(before), k[2])));
                Value dn = b.apply(Opcode.TANH_GRADIENT, k[2], sub(d, carried));
                Value dr = b.apply(Opcode.SIGMOID_GRADIENT, k[0], mul(dn, k[3]));
                b.output(dr).output(dz).output(dn).output(dr).output(dz).output(mul(dn, k[0]));
            }
            case LSTM -> {
                Value tanh = b.apply(Opcode.TANH, k[4]);
                Value slope = b.apply(Opcode.TANH_GRADIENT, tanh, mul(d, k[3]));
                Value cellSlope = Objects.requireNonNull(dc);
                Value dcell = add(choose(mask, cellSlope, zero), slope);
                b.output(b.apply(Opcode.SIGMOID_GRADIENT, k[0], mul(dcell, k[2])));
                b.output(b.apply(Opcode.SIGMOID_GRADIENT, k[1], mul(dcell, Objects.requireNonNull(before))));
                b.output(b.apply(Opcode.TANH_GRADIENT, k[2], mul(dcell, k[0])));
                b.output(b.apply(Opcode.SIGMOID_GRADIENT, k[3], mul(d, tanh)));
                b.output(choose(mask, mul(dcell, k[1]), cellSlope));
            }
            default -> throw new IllegalArgumentException(cell.toString());
        }
        if (cell == Cell.GRU || masked) {
            b.output(choose(mask, carried, dh));
        }
    }
}
