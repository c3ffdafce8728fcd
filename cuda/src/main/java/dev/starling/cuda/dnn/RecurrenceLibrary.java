package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Recurrence.Cell;

/**
 * A library that runs recurrent layers on a device, all steps of all sequences in one call. Operands are row-major,
 * without gaps. Safe for use by several threads.
 */
public interface RecurrenceLibrary {
    /**
     * A recurrent layer, as far as plans depend on it.
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
    record Call(Cell cell, DType type, int steps, int batch, int inputs, int units, boolean biased, boolean kept) { }

    /**
     * The addresses of a layer's operands, or of their gradients, with the shapes of
     * {@link dev.starling.tensor.op.Recurrence}.
     *
     * @param x the inputs
     * @param h the initial states
     * @param c the initial cells of an LSTM, else 0
     * @param weight the input's weight
     * @param recurrentWeight the state's weight
     * @param bias the input's bias, or 0 without biases
     * @param recurrentBias the state's bias, or 0 without biases
     */
    record Operands(long x, long h, long c, long weight, long recurrentWeight, long bias, long recurrentBias) { }

    /**
     * The addresses of a layer's results, or of their gradients.
     *
     * @param y the states after each step
     * @param h the final states
     * @param c the final cells of an LSTM, else 0
     */
    record Results(long y, long h, long c) { }

    /** Returns whether the library supports a type. */
    boolean supports(DType type);

    /**
     * Returns the size in bytes of the reserve that a call fills; it never changes.
     *
     * @return 0 if there is none: the library does not support the call, or the call keeps nothing
     */
    long reserveBytes(Call call);

    /**
     * Queues a layer.
     *
     * @param results where to write the results
     * @param reserve where to write the reserve, {@link #reserveBytes} bytes, or 0
     * @return whether the library computed it; if not, the results are undefined, and it never supports this call again
     */
    boolean forward(Call call, Operands operands, Results results, long reserve);

    /**
     * Queues the gradients of a layer whose forward pass filled its reserve.
     *
     * @param y the layer's result
     * @param reserve the reserve; not changed
     * @param incoming the gradients of the results
     * @param gradients where to write the gradients of all operands
     * @return whether the library computed them, as for {@link #forward}; never after a forward pass that returned
     *     false
     */
    boolean backward(Call call, Operands operands, long y, long reserve, Results incoming, Operands gradients);
}
