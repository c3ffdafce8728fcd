package dev.starling.tensor.cpu;

import dev.starling.tensor.op.Pooling.Window;

/** The positions of windows along one spatial dimension: element {@code k} of window {@code o} is at {@link #at}. */
record PoolingSide(int in, int out, int kernel, int stride, int padding, int dilation) {
    /** Returns dimension {@code i} of three; dimensions that {@code window} lacks come first and have size 1. */
    static PoolingSide of(Window window, int i, long[] in, long[] out) {
        int d = i - 3 + window.rank();
        return d < 0 ? new PoolingSide(1, 1, 1, 1, 0, 1) : new PoolingSide(Math.toIntExact(in[d + 2]),
                Math.toIntExact(out[d + 2]), window.kernel()[d], window.stride()[d], window.padding()[d],
                window.dilation()[d]);
    }

    /** Returns the maximum number of elements that a window has inside, or of windows that contain an element. */
    int maxTaps() {
        return Math.min(kernel, Math.max(in, out));
    }

    int at(int o, int k) {
        return o * stride - padding + k * dilation;
    }

    /** Returns the first element of window {@code o} that is not in the leading padding. */
    int first(int o) {
        return Math.ceilDiv(Math.max(padding - o * stride, 0), dilation);
    }

    /** Returns one more than the last element of window {@code o} before {@code limit}. */
    int end(int o, int limit) {
        return Math.clamp(Math.floorDiv(limit - 1 - at(o, 0), dilation) + 1, 0, kernel);
    }

    /** Returns the number of elements of window {@code o} that the mean counts. */
    int divisor(int o, boolean countPadding) {
        return countPadding ? end(o, in + padding) : end(o, in) - first(o);
    }

    /** Returns the first window that begins inside. */
    int wholeFrom() {
        return Math.ceilDiv(padding, stride);
    }

    /** Returns one more than the last window that ends inside. */
    int wholeTo() {
        return Math.min(out, Math.floorDiv(in - 1 + padding - (kernel - 1) * dilation, stride) + 1);
    }

    /** Returns the window whose element {@code k} is at {@code i}, or -1 if there is none. */
    int window(int i, int k) {
        int from = i + padding - k * dilation;
        return from >= 0 && from % stride == 0 && from / stride < out ? from / stride : -1;
    }

    /** Returns the first element for which all surrounding windows exist and are whole. */
    int surroundedFrom() {
        return (wholeFrom() - 1) * stride + (kernel - 1) * dilation - padding + 1;
    }

    /** Returns one more than the last such element. */
    int surroundedTo() {
        return Math.min(in, wholeTo() * stride - padding);
    }
}
