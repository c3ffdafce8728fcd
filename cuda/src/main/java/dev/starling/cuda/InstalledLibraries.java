package dev.starling.cuda;

import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Library;
import java.util.List;
import java.util.function.Supplier;

/**
 * NVIDIA's optional libraries on this machine, beside the driver and the compiler. Without them operations are slower.
 */
final class InstalledLibraries {
    private InstalledLibraries() { }

    /** Loads the libraries and returns what was found. */
    static List<Library> detect() {
        return List.of(
                library("cuBLASLt", CublasLt::versionText, () -> "", "products of matrices are slow",
                        Redist.remedy("CUDA 13's libcublas", "-cublas")),
                library("cuDNN", Cudnn::versionText, Cudnn::fault, "convolutions and attention are slow",
                        Redist.remedy("cuDNN 9.10.2 or newer for CUDA 13", "-cudnn")),
                library("NCCL", Nccl::versionText, () -> Nccl.isNewEnough() ? ""
                        : "too old, gradients of several GPUs pass through host memory",
                        "gradients of several GPUs pass through host memory",
                        Redist.remedy("NCCL 2.14 or newer for CUDA 13", "-nccl")));
    }

    /**
     * Returns what is known of a library.
     *
     * @param version its version; throws a {@link LinkageError} if the library is missing
     * @param fault what is wrong with it, or an empty text
     */
    private static Library library(String name, Supplier<String> version, Supplier<String> fault, String cost,
            String remedy) {
        try {
            String wrong = fault.get();
            return new Library(name, version.get() + (wrong.isEmpty() ? "" : ": " + wrong),
                    wrong.isEmpty() ? "" : remedy);
        } catch (LinkageError | TensorException e) {
            return new Library(name, "missing: " + cost, remedy);
        }
    }
}
