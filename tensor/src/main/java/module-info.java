import org.jspecify.annotations.NullMarked;

/**
 * Arrays, their operations, off-heap memory and the CPU backend.
 *
 * <p>The Vector API is optional: resolved with {@code --add-modules jdk.incubator.vector} it makes kernels faster.
 */
@NullMarked
@SuppressWarnings("module") // The module of a qualified export is compiled later.
module dev.starling.tensor {
    requires static transitive org.jspecify;
    requires static jdk.incubator.vector;
    requires jdk.management;
    requires org.bytedeco.dnnl;
    requires org.bytedeco.javacpp;
    requires org.bytedeco.opencl;
    requires transitive dev.starling.errors;
    requires transitive jdk.jfr;

    exports dev.starling.tensor;
    exports dev.starling.tensor.op;
    exports dev.starling.tensor.op.scalar;
    exports dev.starling.tensor.profile;
    exports dev.starling.tensor.program;
    exports dev.starling.tensor.spi;
    /* A parameter server's weights and a collective's sums are computed by the same generated loops. */
    exports dev.starling.tensor.cpu.jit to dev.starling.distributed;

    uses dev.starling.tensor.spi.BackendProvider;

    provides dev.starling.tensor.spi.BackendProvider with dev.starling.tensor.cpu.CpuProvider,
            dev.starling.tensor.reference.ReferenceProvider;
}
