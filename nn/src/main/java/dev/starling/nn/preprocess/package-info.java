/**
 * Preprocessing that is part of a model: layers whose buffers are adapted to the training data, saved with the weights
 * and applied to the requests that the model serves.
 */
package dev.starling.nn.preprocess;
