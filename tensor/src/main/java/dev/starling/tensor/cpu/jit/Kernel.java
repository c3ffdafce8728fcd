package dev.starling.tensor.cpu.jit;

/** A generated loop over a rectangle of elements. Stateless: several threads may run it at the same time. */
interface Kernel {
    /**
     * Computes the elements of the rows {@code rowFrom} to {@code rowTo} and of the columns {@code columnFrom} to
     * {@code columnTo} (exclusive, fewer than 2<sup>31</sup>). Each position of all operands is read before the same
     * position is written, so that an output may share an input's memory.
     */
    void run(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo);

    /** Computes the same with a loop over single elements. */
    void runElements(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo);
}
