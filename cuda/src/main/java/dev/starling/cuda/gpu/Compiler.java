package dev.starling.cuda.gpu;

/** Compiles CUDA C++ for a device. Safe for use by several threads. */
public interface Compiler {
    /** Returns a name that changes whenever the same source may give another program: product, version, options. */
    String version();

    /**
     * Compiles a program.
     *
     * @param name what to call it in messages
     * @param source all of its source: nothing is included
     * @param architecture as {@link Gpu#architecture} has it
     * @throws GpuException if it does not compile, with what the compiler said
     */
    byte[] compile(String name, String source, String architecture);
}
