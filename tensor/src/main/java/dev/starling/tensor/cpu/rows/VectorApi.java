package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.Vectors;

/** Whether vectorised loops can run. No other class of this package may load classes that use the Vector API. */
final class VectorApi {
    /** Whether {@link Vectors#bits} reports vectors. */
    static final boolean PRESENT = Vectors.bits() > 0;

    private VectorApi() {
    }
}
