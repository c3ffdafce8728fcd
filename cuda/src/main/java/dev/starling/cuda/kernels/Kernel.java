package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;

/**
 * A kernel, identified by what it is specialised for: a small record. Equal records have the same source. A kernel is
 * compiled at its first launch.
 */
interface Kernel {
    KernelSource source();
}
