package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that convolves on a device. Images and weights lie channels last, without gaps, at multiples of 16 bytes.
 * Each method queues one operation and returns whether it could; where not, nothing was queued. Safe for use by several
 * threads.
 */
public interface Convolver {
    /** What every address is a multiple of. */
    int ALIGNMENT = 16;

    /** Tells whether it convolves a type. */
    boolean takes(DType type);

    /**
     * Convolves {@code x} with {@code weight}, adds {@code bias} unless that is 0, and replaces negative sums by 0 if
     * {@code relu}.
     */
    boolean forward(ConvolutionCall call, long x, long weight, long bias, boolean relu, long y);

    /** Sets {@code x} to its gradient from {@code g}, that of y. */
    boolean inputGradient(ConvolutionCall call, long g, long weight, long x);

    /** Sets {@code weight} to its gradient from {@code g}, that of y. */
    boolean weightGradient(ConvolutionCall call, long x, long g, long weight);
}
