package dev.starling.samples.data;

import dev.starling.nn.data.LabelledImages;

/**
 * A data set in its two parts.
 *
 * @param train what a model learns from
 * @param test what it is judged by, and never sees in training
 */
public record Split(LabelledImages train, LabelledImages test) { }
