package dev.starling.cuda.emulated;

import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** The emulated GPU, available if there is a compiler for its kernels. */
public final class Emulation {
    private static final boolean AVAILABLE = System.getProperty("os.arch").equals("amd64") && GnuCompiler.isAvailable();

    /** How many sources are compiled together at most. */
    public static final int TOGETHER = 8;

    private static final AtomicLong FREE = new AtomicLong(Long.MAX_VALUE / 2);

    /** Made with the first GPU. */
    private static final class Shared {
        static final GnuCompiler COMPILER = new GnuCompiler();
    }

    private Emulation() { }

    /** Limits the memory that emulated GPUs have left. */
    public static void limitMemory(long bytes) {
        FREE.set(bytes);
    }

    /** Reserves memory, or releases it if negative; returns whether there was enough. */
    static boolean reserve(long bytes) {
        if (FREE.addAndGet(-bytes) < 0) {
            FREE.addAndGet(bytes);
            return false;
        }
        return true;
    }

    /** Returns whether this machine can emulate a GPU: it needs x86-64 and g++. */
    public static boolean isAvailable() {
        return AVAILABLE;
    }

    /** Returns the compiler of kernels for all emulated GPUs, and for those of {@link FakeDriver}. */
    public static Compiler compiler() {
        return Shared.COMPILER;
    }

    /**
     * Compiles sources together, which takes less than half the time: as soon as one of them is compiled, all are.
     *
     * @param sources at most {@link #TOGETHER}
     */
    public static void together(List<String> sources) {
        Shared.COMPILER.together(sources);
    }

    /** Makes a GPU. */
    public static Gpu gpu() {
        return gpu(1);
    }

    /** Makes a GPU whose seed determines the order of blocks and warps. */
    public static Gpu gpu(int seed) {
        return new EmulatedGpu(seed);
    }
}
