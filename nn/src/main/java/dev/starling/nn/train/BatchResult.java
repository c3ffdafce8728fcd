package dev.starling.nn.train;

import dev.starling.tensor.Tensor;

/**
 * What the forward pass of a batch with rows results in.
 *
 * @param loss the loss, which has not been read yet
 * @param result the model's result
 * @param target the target, on the model's device
 * @param rows number of rows, at least 1
 */
record BatchResult(Tensor loss, Tensor result, Tensor target, long rows) { }
