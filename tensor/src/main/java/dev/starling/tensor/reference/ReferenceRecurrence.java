package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import org.jspecify.annotations.Nullable;

/** Recurrent layers, sequence by sequence and step by step. */
final class ReferenceRecurrence {
    private final Cell cell;
    private final boolean reverse;
    private final int steps;
    private final int batch;
    private final int inputs;
    private final int units;
    /** Number of rows of the weights. */
    private final int rows;
    private final Elements x;
    private final Elements h0;
    private final @Nullable Elements c0;
    private final Elements w;
    private final Elements u;
    private final @Nullable Elements bias;
    private final @Nullable Elements recurrentBias;
    /** Read once, so that a change by another thread leads out of no array; empty if all sequences have all steps. */
    private final int[] lengths;

    private ReferenceRecurrence(Recurrence op, Tensor[] in) {
        Recurrence.Operands<Tensor> o = op.operands(in);
        cell = op.cell();
        reverse = op.reverse();
        steps = Math.toIntExact(o.x().size(0));
        batch = Math.toIntExact(o.x().size(1));
        inputs = Math.toIntExact(o.x().size(2));
        units = Math.toIntExact(o.h().size(1));
        rows = cell.gates() * units;
        x = Elements.of(o.x());
        h0 = Elements.of(o.h());
        c0 = elements(o.c());
        w = Elements.of(o.weight());
        u = Elements.of(o.recurrentWeight());
        bias = elements(o.bias());
        recurrentBias = elements(o.recurrentBias());
        Elements given = elements(o.lengths());
        lengths = new int[given == null ? 0 : batch];
        for (int n = 0; given != null && n < batch; n++) {
            lengths[n] = Recurrence.length(op, given.getLong(n), n, steps);
        }
    }

    private static @Nullable Elements elements(@Nullable Tensor x) {
        return x == null ? null : Elements.of(x);
    }

    static void run(Recurrence op, Tensor[] in, Tensor[] out) {
        ReferenceRecurrence layer = new ReferenceRecurrence(op, in);
        switch (op) {
            case Recurrence.Forward f -> layer.forward(out, f.keeps() ? f.cell().reserved() : 0);
            case Recurrence.Gradient _ -> layer.backward(in, out);
        }
    }

    private int length(int n) {
        return lengths.length == 0 ? steps : lengths[n];
    }

    /** Returns the step of a sequence that is processed {@code i}-th. */
    private int step(int n, int i) {
        return reverse ? length(n) - 1 - i : i;
    }

    private static double sigmoid(double a) {
        return 1 / (1 + StrictMath.exp(-a));
    }

    private double[] state(@Nullable Elements from, int n) {
        double[] state = new double[units];
        for (int j = 0; from != null && j < units; j++) {
            state[j] = from.get((long) n * units + j);
        }
        return state;
    }

    private void forward(Tensor[] out, int reserved) {
        Elements y = Elements.of(out[0]);
        Elements reserve = Elements.of(out[out.length - 1]);
        for (int n = 0; n < batch; n++) {
            double[] h = state(h0, n);
            double[] c = state(c0, n);
            for (int t = length(n); t < steps; t++) {
                for (int j = 0; j < units; j++) {
                    y.set(((long) t * batch + n) * units + j, 0);
                    for (int k = 0; k < reserved; k++) {
                        reserve.set((((long) t * batch + n) * reserved + k) * units + j, 0);
                    }
                }
            }
            for (int i = 0; i < length(n); i++) {
                long at = (long) step(n, i) * batch + n;
                double[][] kept = advance(at, h, c);
                for (int j = 0; j < units; j++) {
                    y.set(at * units + j, h[j]);
                    for (int k = 0; k < reserved; k++) {
                        reserve.set((at * reserved + k) * units + j, kept[k][j]);
                    }
                }
            }
            for (int j = 0; j < units; j++) {
                Elements.of(out[1]).set((long) n * units + j, h[j]);
                if (c0 != null) {
                    Elements.of(out[2]).set((long) n * units + j, c[j]);
                }
            }
        }
    }

    /** Computes a step of a sequence in place and returns the values to keep. */
    private double[][] advance(long at, double[] h, double[] c) {
        double[] a = new double[rows];
        double[] b = new double[rows];
        for (int r = 0; r < rows; r++) {
            a[r] = bias == null ? 0 : bias.get(r);
            b[r] = recurrentBias == null ? 0 : recurrentBias.get(r);
            for (int i = 0; i < inputs; i++) {
                a[r] += x.get(at * inputs + i) * w.get((long) r * inputs + i);
            }
            for (int j = 0; j < units; j++) {
                b[r] += h[j] * u.get((long) r * units + j);
            }
        }
        double[][] kept = new double[cell.reserved()][units];
        for (int j = 0; j < units; j++) {
            double sum = a[j] + b[j];
            switch (cell) {
                case TANH -> h[j] = StrictMath.tanh(sum);
                case RELU -> h[j] = Math.max(sum, 0);
                case GRU -> {
                    kept[0][j] = sigmoid(sum);
                    kept[1][j] = sigmoid(a[units + j] + b[units + j]);
                    kept[3][j] = b[2 * units + j];
                    kept[2][j] = StrictMath.tanh(a[2 * units + j] + kept[0][j] * kept[3][j]);
                    h[j] = (1 - kept[1][j]) * kept[2][j] + kept[1][j] * h[j];
                }
                case LSTM -> {
                    kept[0][j] = sigmoid(sum);
                    kept[1][j] = sigmoid(a[units + j] + b[units + j]);
                    kept[2][j] = StrictMath.tanh(a[2 * units + j] + b[2 * units + j]);
                    kept[3][j] = sigmoid(a[3 * units + j] + b[3 * units + j]);
                    c[j] = kept[1][j] * c[j] + kept[0][j] * kept[2][j];
                    kept[4][j] = c[j];
                    h[j] = kept[3][j] * StrictMath.tanh(c[j]);
                }
            }
        }
        return kept;
    }

    private void backward(Tensor[] in, Tensor[] out) {
        int states = c0 == null ? 1 : 2;
        Elements dy = Elements.of(in[0]);
        Elements y = Elements.of(in[states + 1]);
        Elements reserve = Elements.of(in[states + 2]);
        double[][] sums = new double[out.length][];
        for (int i = 0; i < out.length; i++) {
            sums[i] = new double[Math.toIntExact(out[i].count())];
        }
        for (int n = 0; n < batch; n++) {
            double[] dh = state(Elements.of(in[1]), n);
            double[] dc = state(states == 2 ? Elements.of(in[2]) : null, n);
            for (int i = length(n) - 1; i >= 0; i--) {
                long at = (long) step(n, i) * batch + n;
                long before = i == 0 ? -1 : (long) step(n, i - 1) * batch + n;
                double[] h = new double[units];
                double[] c = new double[units];
                for (int j = 0; j < units; j++) {
                    dh[j] += dy.get(at * units + j);
                    h[j] = before < 0 ? h0.get((long) n * units + j) : y.get(before * units + j);
                    c[j] = c0 == null ? 0 : before < 0 ? c0.get((long) n * units + j)
                            : reserve.get((before * cell.reserved() + 4) * units + j);
                }
                double[][] slopes = slopes(at, y, reserve, h, c, dh, dc);
                carry(at, slopes, h, dh, sums, 1 + states);
            }
            System.arraycopy(dh, 0, sums[1], n * units, units);
            if (states == 2) {
                System.arraycopy(dc, 0, sums[2], n * units, units);
            }
        }
        for (int i = 0; i < out.length; i++) {
            Elements.of(out[i]).setAll(sums[i]);
        }
    }

    /**
     * Returns the gradients of a step's sums, of x's and of h's. {@code dc} becomes the gradient of the cell before the
     * step, {@code dh} that of h before the step without the contribution through the weights.
     */
    private double[][] slopes(long at, Elements y, Elements reserve, double[] h, double[] c, double[] dh, double[] dc) {
        double[] a = new double[rows];
        double[] b = cell == Cell.GRU ? new double[rows] : a;
        for (int j = 0; j < units; j++) {
            double[] k = new double[cell.reserved()];
            for (int i = 0; i < k.length; i++) {
                k[i] = reserve.get((at * k.length + i) * units + j);
            }
            double d = dh[j];
            dh[j] = 0;
            switch (cell) {
                case TANH -> a[j] = d * (1 - y.get(at * units + j) * y.get(at * units + j));
                case RELU -> a[j] = y.get(at * units + j) > 0 ? d : 0;
                case GRU -> {
                    a[units + j] = d * (h[j] - k[2]) * k[1] * (1 - k[1]);
                    a[2 * units + j] = d * (1 - k[1]) * (1 - k[2] * k[2]);
                    a[j] = a[2 * units + j] * k[3] * k[0] * (1 - k[0]);
                    b[j] = a[j];
                    b[units + j] = a[units + j];
                    b[2 * units + j] = a[2 * units + j] * k[0];
                    dh[j] = d * k[1];
                }
                case LSTM -> {
                    double tanh = StrictMath.tanh(k[4]);
                    double dcell = dc[j] + d * k[3] * (1 - tanh * tanh);
                    a[j] = dcell * k[2] * k[0] * (1 - k[0]);
                    a[units + j] = dcell * c[j] * k[1] * (1 - k[1]);
                    a[2 * units + j] = dcell * k[0] * (1 - k[2] * k[2]);
                    a[3 * units + j] = d * tanh * k[3] * (1 - k[3]);
                    dc[j] = dcell * k[1];
                }
            }
        }
        return new double[][] {a, b};
    }

    /**
     * Adds a step's contribution to the gradients of x, weights and biases, and the contribution through the weights to
     * {@code dh}.
     */
    private void carry(long at, double[][] slopes, double[] h, double[] dh, double[][] sums, int weights) {
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < inputs; i++) {
                sums[weights][r * inputs + i] += slopes[0][r] * x.get(at * inputs + i);
                if (sums[0].length > 0) {
                    sums[0][(int) at * inputs + i] += slopes[0][r] * w.get((long) r * inputs + i);
                }
            }
            for (int j = 0; j < units; j++) {
                sums[weights + 1][r * units + j] += slopes[1][r] * h[j];
                dh[j] += slopes[1][r] * u.get((long) r * units + j);
            }
            if (bias != null) {
                sums[weights + 2][r] += slopes[0][r];
                sums[weights + 3][r] += slopes[1][r];
            }
        }
    }
}
