package dev.starling.tensor.cpu;

/**
 * One spatial dimension of a convolution, reduced to what contributes to the result: the kernel taps that read a pixel
 * at some output position, the output positions that read a pixel with some tap, and the pixels from the first to the
 * last that any tap reads. The rest of the output is the bias, and the rest of both gradients is 0.
 *
 * @param tap first tap that is kept
 * @param taps number of taps, 0 if no tap reads a pixel
 * @param tapStep distance between kept taps
 * @param place first output position that is kept
 * @param places number of positions
 * @param pixel first pixel that is kept
 * @param pixels number of pixels
 * @param pixelStep distance between kept pixels, which is the stride if there is one tap
 * @param stride distance between positions in kept pixels, 1 if there is one position or one tap
 * @param dilation distance between kept taps in pixels, 1 if there is one
 * @param low padding before the kept pixels, less than the extent of the kept taps
 * @param high padding after them, exactly as far as the last tap reaches at the last position
 * @param gaps whether taps or positions between the kept ones read only padding
 */
record ConvolutionAxis(long tap, long taps, long tapStep, long place, long places, long pixel, long pixels,
                       long pixelStep, long stride, long dilation, long low, long high, boolean gaps) {
    private static final ConvolutionAxis EMPTY = new ConvolutionAxis(0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, false);

    /** Returns whether every tap and every position reads a pixel, and stride and dilation have an effect or are 1. */
    static boolean isWhole(long in, long kernel, long out, long stride, long padding, long dilation) {
        long reach = (kernel - 1) * dilation;
        return in >= stride && (kernel > 1 ? dilation <= in : dilation == 1) && (out > 1 || stride == 1)
                && padding <= reach && padding <= (out - 1) * stride && reach - padding < in;
    }

    /** Reduces a dimension; sizes, padding and the kernel's extent are less than 2³¹. */
    static ConvolutionAxis of(long in, long kernel, long out, long stride, long padding, long dilation) {
        long first = 0;
        long last = 0;
        long lowest = 0;
        long highest = 0;
        long step = 0;
        boolean even = true;
        boolean joined = true;
        for (long t = 0; t < kernel; t++) {
            long shift = padding - t * dilation;
            long from = Math.max(0, Math.ceilDiv(shift, stride));
            long to = Math.min(out - 1, Math.floorDiv(shift + in - 1, stride));
            if (from > to) {
                continue;
            }
            if (step == 0) {
                first = t;
                highest = to;
                step = -1;
            } else {
                even &= step < 0 || t - last == step;
                joined &= to + 1 >= lowest;
                step = t - last;
            }
            last = t;
            lowest = from;
        }
        if (step == 0) {
            return EMPTY;
        }
        long tapStep = step > 0 && even ? step : 1;
        long base = lowest * stride + first * dilation - padding;
        long end = highest * stride + last * dilation - padding;
        long pixel = Math.max(0, base);
        long pixels = Math.min(in - 1, end) - pixel + 1;
        long places = highest - lowest + 1;
        if (first == last) {
            return new ConvolutionAxis(first, 1, 1, lowest, places, pixel, places, stride, 1, 1, 0, 0, !joined);
        }
        return new ConvolutionAxis(first, (last - first) / tapStep + 1, tapStep, lowest, places, pixel, pixels, 1,
                places == 1 ? 1 : stride, tapStep * dilation, pixel - base, end - pixel + 1 - pixels,
                !even || !joined);
    }
}
