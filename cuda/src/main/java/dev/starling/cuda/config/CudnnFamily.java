package dev.starling.cuda.config;

/** The families of operations that may use cuDNN. The others run on Starling's own kernels. */
public enum CudnnFamily {
    CONVOLUTION, ATTENTION, RECURRENCE
}
