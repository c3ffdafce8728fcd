package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.NvidiaGpu;

/** The libraries that a backend uses beside its own kernels; each may be {@code null}. */
interface Libraries {
    /** None: all is done by our own kernels. */
    Libraries NONE = (gpu, stream) -> null;

    /** NVIDIA's, as far as they are installed. */
    Libraries NVIDIA = (gpu, stream) -> CublasLt.open((NvidiaGpu) gpu, stream);

    /** Returns what multiplies matrices. */
    Blas blas(Gpu gpu, Gpu.Stream stream);
}
