package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that computes convolutions on a device. Images and weights are channels last, without gaps, at addresses
 * that are multiples of 16 bytes. The methods for passes queue one operation each and return whether the library could
 * compute it; if not, nothing was queued. Safe for use by several threads.
 */
public interface ConvolutionLibrary {
    /** Every address is a multiple of this. */
    int ALIGNMENT = 16;

    /** Returns whether the library supports a type. */
    boolean supports(DType type);

    /**
     * Convolves {@code x} with {@code weight}, adds {@code bias} unless its address is 0, and applies ReLU if
     * {@code relu}.
     */
    boolean forward(ConvolutionCall call, long x, long weight, long bias, boolean relu, long y);

    /** Sets {@code x} to its gradient, given the gradient {@code g} of {@code y}. */
    boolean inputGradient(ConvolutionCall call, long g, long weight, long x);

    /** Sets {@code weight} to its gradient, given the gradient {@code g} of {@code y}. */
    boolean weightGradient(ConvolutionCall call, long x, long g, long weight);
}
