package dev.starling.tensor.cpu.jit;

/** A generated loop over a rectangle of elements. Stateless: several threads may run it at once. */
interface Kernel {
    /**
     * Computes the elements of the rows {@code rowFrom} to {@code rowTo} and of the columns {@code columnFrom} to
     * {@code columnTo} (exclusive, fewer than 2<sup>31</sup>). What each operand's elements are read before those at
     * the same place are written, so that an output may be an input's memory.
     *
     * @param frame addresses, row strides and column strides of the operands, and parameters, as {@link Launch} has
     * them
     */
    void run(long[] frame, long rowFrom, long rowTo, long columnFrom, long columnTo);

    /** Does the same, with a loop over single elements. */
    void runElements(long[] frame, long rowFrom, long rowTo, long columnFrom, long columnTo);
}
