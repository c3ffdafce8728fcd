package dev.starling.tensor;

import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Pooling.Window;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Pooling over 1, 2 or 3 spatial dimensions: {@code [N, C, *in]} to {@code [N, C, *out]}. */
public final class Pools {
    private static final int MAX_WINDOWS = 1 << 16;

    private Pools() {
    }

    /** Maximum of each window over {@code x [N, C, L]}. */
    public static Tensor maxPool1d(Tensor x, int kernel, int stride, int padding) {
        return maxPool(x, Window.of(1, kernel, stride, padding));
    }

    /** Maximum of each window over {@code x [N, C, H, W]}. */
    public static Tensor maxPool2d(Tensor x, int kernel, int stride, int padding) {
        return maxPool(x, Window.of(2, kernel, stride, padding));
    }

    /** Maximum of each window over {@code x [N, C, D, H, W]}. */
    public static Tensor maxPool3d(Tensor x, int kernel, int stride, int padding) {
        return maxPool(x, Window.of(3, kernel, stride, padding));
    }

    /** Maximum of each window; padded elements never win. */
    public static Tensor maxPool(Tensor x, Window window) {
        return Tensor.compute(new Pooling.MaxPool(window), x);
    }

    /** Mean of each window over {@code x [N, C, L]}; zeros of the padding count. */
    public static Tensor avgPool1d(Tensor x, int kernel, int stride, int padding) {
        return avgPool(x, Window.of(1, kernel, stride, padding), true);
    }

    /** Mean of each window over {@code x [N, C, H, W]}; zeros of the padding count. */
    public static Tensor avgPool2d(Tensor x, int kernel, int stride, int padding) {
        return avgPool(x, Window.of(2, kernel, stride, padding), true);
    }

    /** Mean of each window over {@code x [N, C, D, H, W]}; zeros of the padding count. */
    public static Tensor avgPool3d(Tensor x, int kernel, int stride, int padding) {
        return avgPool(x, Window.of(3, kernel, stride, padding), true);
    }

    /**
     * Mean of each window.
     *
     * @param countPadding whether zeros of the padding count
     */
    public static Tensor avgPool(Tensor x, Window window, boolean countPadding) {
        return Tensor.compute(new Pooling.AvgPool(window, countPadding), x);
    }

    /**
     * Mean over {@code out[i]} windows that together cover spatial dimension {@code i}. Window {@code o} covers
     * {@code ⌊o·in/out⌋} to {@code ⌈(o + 1)·in/out⌉}. If {@code out} does not divide {@code in} in each dimension, an
     * element that is infinite or NaN makes all windows in its line NaN.
     *
     * @param x {@code [N, C, *in]}
     * @param out size of the result in each spatial dimension
     */
    public static Tensor adaptiveAvgPool(Tensor x, int... out) {
        Window even = evenWindow("adaptiveAvgPool", x, out);
        if (even != null) {
            return avgPool(x, even, true);
        }
        if (!x.dtype().isFloating()) {
            throw new TensorException(TensorException.Problem.DTYPE, "adaptiveAvgPool", List.of(x.spec()),
                    "needs a floating type", "cast with to(DType)");
        }
        Tensor y = x;
        for (int i = 0; i < out.length; i++) {
            if (y.size(i + 2) != out[i]) {
                y = y.transpose(i + 2, -1).matmul(averaging(x, x.size(i + 2), out[i]).t()).transpose(i + 2, -1);
            }
        }
        return y;
    }

    /**
     * Maximum over {@code out[i]} windows that together cover spatial dimension {@code i}; see
     * {@link #adaptiveAvgPool}. Of equal maxima in a window the first gets the gradient, as in {@link #maxPool}, if all
     * sizes are divisible by those of {@code out}; otherwise they share it.
     */
    public static Tensor adaptiveMaxPool(Tensor x, int... out) {
        Window even = evenWindow("adaptiveMaxPool", x, out);
        if (even != null) {
            return maxPool(x, even);
        }
        Tensor y = x;
        for (int i = 0; i < out.length; i++) {
            long in = y.size(i + 2);
            Tensor[] windows = new Tensor[out[i]];
            for (int o = 0; o < out[i]; o++) {
                long from = o * in / out[i];
                windows[o] = y.narrow(i + 2, from, Math.ceilDiv((o + 1) * in, out[i]) - from).max(true, i + 2);
            }
            y = Tensor.concat(i + 2, windows);
        }
        return y;
    }

    /** Returns the window that divides each dimension into equal parts, or {@code null} if a size is not divisible. */
    private static @Nullable Window evenWindow(String op, Tensor x, int[] out) {
        int rank = out.length;
        if (rank < 1 || rank > 3 || x.rank() != rank + 2) {
            throw new TensorException(TensorException.Problem.SHAPE, op, List.of(x.spec()),
                    "x must be [N, C, *spatial] with the spatial rank of " + Arrays.toString(out),
                    "give one size for each of 1 to 3 spatial dimensions");
        }
        int[] kernel = new int[rank];
        boolean even = true;
        for (int i = 0; i < rank; i++) {
            long in = x.size(i + 2);
            if (out[i] <= 0 || in == 0) {
                throw new TensorException(TensorException.Problem.SHAPE, op, List.of(x.spec()),
                        "sizes must be > 0, got " + Arrays.toString(out), "give positive sizes");
            }
            if (out[i] > MAX_WINDOWS && out[i] > in) {
                throw new TensorException(TensorException.Problem.ARGUMENT, op, List.of(x.spec()),
                        "a size above the input's must be at most " + MAX_WINDOWS + ", got " + Arrays.toString(out),
                        "give smaller sizes");
            }
            even &= in % out[i] == 0;
            kernel[i] = (int) Math.min(in / out[i], Integer.MAX_VALUE);
        }
        int[] ones = new int[rank];
        Arrays.fill(ones, 1);
        return even ? new Window(kernel, kernel, new int[rank], ones, false) : null;
    }

    /** Returns {@code [out, in]}: row {@code o} holds 1/size within window {@code o}, and 0 elsewhere. */
    private static Tensor averaging(Tensor like, long in, int out) {
        if (in > Integer.MAX_VALUE / out) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "adaptiveAvgPool", List.of(like.spec()),
                    "input times output must be < 2^31 if the sizes do not divide, got " + in + " and " + out,
                    "pool to a divisor of the input's size");
        }
        double[] matrix = new double[(int) in * out];
        for (int o = 0; o < out; o++) {
            int from = (int) (o * in / out);
            int to = (int) Math.ceilDiv((o + 1) * in, out);
            Arrays.fill(matrix, (int) (o * in) + from, (int) (o * in) + to, 1.0 / (to - from));
        }
        return Device.with(like.device(), () -> Tensor.of(matrix, out, in)).to(like.dtype());
    }
}
