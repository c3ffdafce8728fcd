package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Recurrence.Cell;

/**
 * A library that runs recurrent layers on a device, from the first step to the last, all sequences for all steps.
 * Operands are row-major and lie without gaps. Safe for use by several threads.
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
     * @param kept whether a reserve is kept for the gradients
     */
    record Call(Cell cell, DType type, int steps, int batch, int inputs, int units, boolean biased, boolean kept) { }

    /**
     * The addresses of a layer's operands, or of their gradients, shaped as
     * {@link dev.starling.tensor.op.Recurrence} says.
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

    /**
     * The addresses of a layer's results, or of their gradients.
     *
     * @param y of the states after each step
     * @param h of the states at the end
     * @param c of an LSTM's cells at the end, else 0
     */
    record Results(long y, long h, long c) { }

    /** Tells whether it takes a type. */
    boolean takes(DType type);

    /**
     * Returns the size of the reserve that a call keeps: the same whenever it is asked.
     *
     * @return 0 if there is none, because the library does not take the call, or keeps nothing
     */
    long reserveBytes(Call call);

    /**
     * Queues a layer.
     *
     * @param results where to write
     * @param reserve where to write what is kept, as many bytes as {@link #reserveBytes} says, or 0
     * @return whether it could; where not, no result is right, and the library takes the call never again
     */
    boolean forward(Call call, Operands operands, Results results, long reserve);

    /**
     * Queues the gradients of a layer that kept its reserve.
     *
     * @param y the layer's result
     * @param reserve what it kept; not changed
     * @param incoming the gradients of the results
     * @param gradients where to write those of the operands, all of them
     * @return whether it could, as for {@link #forward}; no after a call of that which could not
     */
    boolean backward(Call call, Operands operands, long y, long reserve, Results incoming, Operands gradients);
}
