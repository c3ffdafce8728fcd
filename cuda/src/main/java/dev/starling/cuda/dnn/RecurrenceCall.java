package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Recurrence.Cell;

/**
 * A recurrent layer, as far as cuDNN's plans depend on it.
 *
 * @param cell the function of a step
 * @param type of all operands
 * @param steps T, at least 1
 * @param batch N, at least 1
 * @param inputs I, at least 1
 * @param units H, at least 1
 * @param biased whether there are biases
 * @param kept whether the call fills a reserve for the gradients
 */
record RecurrenceCall(Cell cell, DType type, int steps, int batch, int inputs, int units, boolean biased,
        boolean kept) { }
