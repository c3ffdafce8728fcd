package dev.starling.tensor.cpu.onednn;

/** Native code compiled for one set of shapes. A {@link Session} owns it until it is closed. */
sealed interface Compiled extends AutoCloseable permits Executable, ConvolutionKernel, PackedMatmul {
    @Override
    void close();
}
