package dev.starling.cuda.emulated;

import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import java.util.concurrent.atomic.AtomicLong;

/** The emulated GPU, where there is a compiler for its kernels. */
public final class Emulation {
    private static final boolean POSSIBLE = System.getProperty("os.arch").equals("amd64") && GnuCompiler.isThere();

    private static final AtomicLong LEFT = new AtomicLong(Long.MAX_VALUE / 2);

    private Emulation() { }

    /** Leaves so much memory to be asked for on emulated GPUs. */
    public static void leave(long bytes) {
        LEFT.set(bytes);
    }

    /** Takes memory, or gives some back if negative; returns whether there was enough. */
    static boolean take(long bytes) {
        if (LEFT.addAndGet(-bytes) < 0) {
            LEFT.addAndGet(bytes);
            return false;
        }
        return true;
    }

    /** Tells whether this machine can play a GPU: it takes x86-64 and g++. */
    public static boolean isPossible() {
        return POSSIBLE;
    }

    /** Returns what compiles kernels for such GPUs, and for those of {@link PlayedDriver}. */
    public static Compiler compiler() {
        return new GnuCompiler();
    }

    /** Makes a GPU. */
    public static Gpu gpu() {
        return gpu(1);
    }

    /** Makes a GPU that draws the order of blocks and warps from a seed: the same seed is the same order. */
    public static Gpu gpu(int seed) {
        return new EmulatedGpu(seed);
    }
}
