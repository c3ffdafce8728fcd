package dev.starling.cuda.gpu;

/** Compiles CUDA C++ for one GPU architecture. Safe for use by several threads. */
public interface Compiler {
    /** Returns a key that changes whenever the same source may compile differently: product, version and options. */
    String version();

    /**
     * Compiles a program.
     *
     * @param name the program's name in messages
     * @param source the whole source: the compiler resolves no includes
     * @param architecture the target, as {@link Gpu#architecture} returns it
     * @return the compiled program, which {@link Gpu#load} accepts
     * @throws GpuException if the source does not compile, with the compiler's log
     */
    byte[] compile(String name, String source, String architecture);
}
