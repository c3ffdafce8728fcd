package dev.starling.tensor.cpu.jit;

/** Makes tests run vector loops before they are compiled; otherwise short arrays would reach the scalar loops only. */
public final class WarmKernels {
    private WarmKernels() {
    }

    /** Sets whether kernels use vectors immediately or warm up as usual. */
    public static void start(boolean vectorsImmediately) {
        TieredKernel.vectorsImmediately = vectorsImmediately;
    }
}
