package dev.starling.cuda.emulated;

import dev.starling.cuda.gpu.Gpu;

/** The emulated GPU, where there is a compiler for its kernels. */
public final class Emulation {
    private static final boolean POSSIBLE = System.getProperty("os.arch").equals("amd64") && GnuCompiler.isThere();

    private Emulation() { }

    /** Tells whether this machine can play a GPU: it takes x86-64 and g++. */
    public static boolean isPossible() {
        return POSSIBLE;
    }

    /** Makes a GPU. */
    public static Gpu gpu() {
        return new EmulatedGpu();
    }
}
