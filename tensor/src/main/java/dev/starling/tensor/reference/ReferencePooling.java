package dev.starling.tensor.reference;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Pooling;

/** Reduces windows, one at a time. */
final class ReferencePooling {
    private ReferencePooling() {
    }

    static void run(Pooling op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case Pooling.MaxPool o -> maxPool(o, in[0], out[0], out[1]);
            case Pooling.MaxPoolGradient o -> maxPoolGradient(o, in[0], in[1], out[0]);
            case Pooling.AvgPool o -> avgPool(o, in[0], out[0]);
            case Pooling.AvgPoolGradient o -> avgPoolGradient(o, in[0], out[0]);
        }
    }

    private static void maxPool(Pooling.MaxPool op, Tensor x, Tensor y, Tensor indices) {
        Windows windows = new Windows(op.window(), x.shape(), y.shape());
        Elements from = Elements.of(x);
        Elements values = Elements.of(y);
        Elements places = Elements.of(indices);
        for (long i = 0; i < y.count(); i++) {
            windows.moveTo(i);
            long best = windows.inside[0];
            for (int j = 1; j < windows.count; j++) {
                best = ReferenceReduction.beats(from, windows.plane + windows.inside[j], windows.plane + best, true)
                        ? windows.inside[j] : best;
            }
            values.copy(i, from, windows.plane + best);
            places.setLong(i, best);
        }
    }

    private static void maxPoolGradient(Pooling.MaxPoolGradient op, Tensor g, Tensor indices, Tensor out) {
        Elements from = Elements.of(g);
        Elements places = Elements.of(indices);
        double[] sums = new double[Math.toIntExact(out.count())];
        long plane = op.shape().slice(2, op.shape().rank()).count();
        long outputs = g.shape().slice(2, g.rank()).count();
        for (long i = 0; i < g.count(); i++) {
            long place = places.getLong(i);
            if (place < 0 || place >= plane) {
                throw ReferenceSelection.outOfRange(op, place, i, 0, plane - 1, g, indices);
            }
            sums[(int) (i / outputs * plane + place)] += from.get(i);
        }
        Elements.of(out).setAll(sums);
    }

    private static void avgPool(Pooling.AvgPool op, Tensor x, Tensor y) {
        Windows windows = new Windows(op.window(), x.shape(), y.shape());
        Elements from = Elements.of(x);
        Elements to = Elements.of(y);
        for (long i = 0; i < y.count(); i++) {
            windows.moveTo(i);
            double sum = 0;
            for (int j = 0; j < windows.count; j++) {
                sum += from.get(windows.plane + windows.inside[j]);
            }
            to.set(i, sum / windows.divisor(op.countPadding()));
        }
    }

    private static void avgPoolGradient(Pooling.AvgPoolGradient op, Tensor g, Tensor out) {
        Windows windows = new Windows(op.window(), out.shape(), g.shape());
        Elements from = Elements.of(g);
        double[] sums = new double[Math.toIntExact(out.count())];
        for (long i = 0; i < g.count(); i++) {
            windows.moveTo(i);
            for (int j = 0; j < windows.count; j++) {
                sums[(int) (windows.plane + windows.inside[j])] += from.get(i) / windows.divisor(op.countPadding());
            }
        }
        Elements.of(out).setAll(sums);
    }

    /** Iterates over the windows. */
    private static final class Windows {
        private final Pooling.Window window;
        private final Shape kernel;
        private final Shape input;
        private final Shape output;
        /** The position at which the plane of x begins. */
        private long plane;
        /** The positions of the window's elements within the plane, in row-major order. */
        private final long[] inside;
        /** Number of positions in {@link #inside}. */
        private int count;
        /** Number of elements of the window that are in the plane or its padding. */
        private int padded;

        Windows(Pooling.Window window, Shape x, Shape y) {
            this.window = window;
            long[] sizes = new long[window.rank()];
            java.util.Arrays.setAll(sizes, i -> window.kernel()[i]);
            kernel = Shape.of(sizes);
            input = x.slice(2, x.rank());
            output = y.slice(2, y.rank());
            inside = new long[Math.toIntExact(kernel.count())];
        }

        void moveTo(long element) {
            plane = element / output.count() * input.count();
            long[] place = ReferenceSelection.coordinates(element % output.count(), output);
            count = 0;
            padded = 0;
            for (long k = 0; k < kernel.count(); k++) {
                long[] within = ReferenceSelection.coordinates(k, kernel);
                boolean real = true;
                boolean counts = true;
                long at = 0;
                for (int d = 0; d < place.length; d++) {
                    long i = place[d] * window.stride()[d] - window.padding()[d] + within[d] * window.dilation()[d];
                    real &= i >= 0 && i < input.dim(d);
                    counts &= i < input.dim(d) + window.padding()[d];
                    at = at * input.dim(d) + i;
                }
                padded += counts ? 1 : 0;
                if (real) {
                    inside[count++] = at;
                }
            }
        }

        int divisor(boolean countPadding) {
            return countPadding ? padded : count;
        }
    }
}
