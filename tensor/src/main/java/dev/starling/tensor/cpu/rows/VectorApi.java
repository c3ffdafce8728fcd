package dev.starling.tensor.cpu.rows;

/** Whether vectorised loops can run: nothing else here may load a class that uses the Vector API. */
final class VectorApi {
    /** True where the module is resolved and the system property {@code starling.scalar} does not say otherwise. */
    static final boolean PRESENT = ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()
            && !Boolean.getBoolean("starling.scalar");

    private VectorApi() {
    }
}
