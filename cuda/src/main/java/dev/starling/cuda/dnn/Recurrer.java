package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Recurrence.Cell;

/**
 * A library that runs recurrent layers on a device, from the first step to the last, all sequences for all steps, and
 * keeps nothing for gradients. Operands are row-major and lie without gaps. Safe for use by several threads.
 */
public interface Recurrer {
    /**
     * What is asked for.
     *
     * @param cell what a step computes
     * @param type of all operands
     * @param steps T, at least 1
     * @param batch N, at least 1
     * @param inputs I, at least 1
     * @param units H, at least 1
     * @param biased whether there are biases
     */
    record Call(Cell cell, DType type, int steps, int batch, int inputs, int units, boolean biased) { }

    /**
     * The addresses of a layer's operands, shaped as {@link dev.starling.tensor.op.Recurrence} says.
     *
     * @param x of the inputs
     * @param h of the states at the start
     * @param c of an LSTM's cells at the start, else 0
     * @param weight of the input
     * @param recurrentWeight of the state
     * @param bias beside the input's weight, 0 where there are no biases
     * @param recurrentBias beside the state's weight, 0 where there are no biases
     */
    record Operands(long x, long h, long c, long weight, long recurrentWeight, long bias, long recurrentBias) { }

    /** Tells whether it takes a type. */
    boolean takes(DType type);

    /**
     * Queues a layer.
     *
     * @param y where to write the states after each step
     * @param lastH where to write the states at the end
     * @param lastC where to write an LSTM's cells at the end, else 0
     * @return whether it could; where not, no result is written
     */
    boolean forward(Call call, Operands operands, long y, long lastH, long lastC);
}
