package dev.starling.tensor.cpu.onednn;

/** Native code made for one set of shapes, kept by a {@link Session} until it is closed. */
sealed interface Compiled extends AutoCloseable permits Executable, ConvolutionKernel {
    @Override
    void close();
}
