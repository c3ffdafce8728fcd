package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A normalisation of {@code [images, pixels, channels]}, or its gradient.
 *
 * @param type of all but weights and statistics
 * @param batch whether each channel is normalised; else each image, which has one pixel
 * @param images how many
 * @param pixels of an image
 * @param channels of a pixel
 * @param epsilon added to the variance
 * @param relu whether negative results become 0
 */
public record NormalizationCall(DType type, boolean batch, long images, long pixels, long channels, float epsilon,
        boolean relu) { }
