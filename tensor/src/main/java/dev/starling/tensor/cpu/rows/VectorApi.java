package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.Vectors;

/** Whether vectorised loops can run: nothing else here may load a class that uses the Vector API. */
final class VectorApi {
    /** True where {@link Vectors#bits} finds vectors. */
    static final boolean PRESENT = Vectors.bits() > 0;

    private VectorApi() {
    }
}
