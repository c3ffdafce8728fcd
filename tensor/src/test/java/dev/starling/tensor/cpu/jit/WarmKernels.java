package dev.starling.tensor.cpu.jit;

/** Lets tests run the loops over vectors before they are compiled, when short arrays would only see the other ones. */
public final class WarmKernels {
    private WarmKernels() {
    }

    /** From now on kernels use vectors at once, or warm up as usual. */
    public static void start(boolean vectorsAtOnce) {
        TieredKernel.vectorsAtOnce = vectorsAtOnce;
    }
}
