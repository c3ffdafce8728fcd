package dev.starling.samples.data;

import dev.starling.nn.data.LabelledImages;

/**
 * The two parts of a data set.
 *
 * @param train training images
 * @param test test images, which are never used for training
 */
public record Split(LabelledImages train, LabelledImages test) { }
