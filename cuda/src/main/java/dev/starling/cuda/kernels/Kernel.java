package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;

/**
 * A kernel by what it is specialised for: a small record, equal values of which have one source. It is compiled when it
 * is launched for the first time.
 */
interface Kernel {
    KernelSource source();
}
