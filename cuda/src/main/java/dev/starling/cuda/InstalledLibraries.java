package dev.starling.cuda;

import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.Library;
import java.util.List;
import java.util.function.Supplier;

/** NVIDIA's libraries that this machine has beside the driver and the compiler, without which all works, but slower. */
final class InstalledLibraries {
    private InstalledLibraries() { }

    /** Loads them and returns what there is. */
    static List<Library> look() {
        return List.of(
                library("cuBLASLt", CublasLt::versionInWords, () -> "", "products of matrices are slow",
                        Redist.remedy("CUDA 13's libcublas", "-cublas")),
                library("cuDNN", Cudnn::versionInWords, Cudnn::fault, "convolutions and attention are slow",
                        Redist.remedy("cuDNN 9.10.2 or newer for CUDA 13", "-cudnn")),
                library("NCCL", Nccl::versionInWords, () -> Nccl.isNewEnough() ? ""
                        : "too old, gradients of several GPUs go through the host's memory",
                        "gradients of several GPUs go through the host's memory",
                        Redist.remedy("NCCL 2.14 or newer for CUDA 13", "-nccl")));
    }

    /**
     * Returns what there is of a library.
     *
     * @param version throws a {@link LinkageError} if it is missing
     * @param fault says what is wrong with it, or nothing
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
