package dev.starling.cuda;

import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.blas.CublasProducts;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.config.CudnnFamily;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.dnn.CudnnAttention;
import dev.starling.cuda.dnn.CudnnConvolution;
import dev.starling.cuda.dnn.CudnnRecurrence;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.Products;
import dev.starling.cuda.kernels.ReductionKernels;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.spi.DeviceCollectives;
import java.util.List;
import java.util.Set;
import java.util.function.Function;

/**
 * The vendor's libraries of one device, which are tried before Starling's own kernels. Each is opened at its first use.
 *
 * @param products ways to multiply matrices
 * @param convolution ways to convolve
 * @param attention ways to compute attention
 * @param recurrence ways to compute recurrent layers
 * @param open opens those that are not open yet: opening one may block, which is not allowed during a capture
 * @param collectives sums over several GPUs, or {@code null}; they queue work through the given entry
 */
record Libraries(List<Products> products, List<Kernels<Convolution>> convolution, List<Kernels<Attention>> attention,
        List<CudnnRecurrence> recurrence, Runnable open, Function<Submissions, DeviceCollectives> collectives) {
    /** Starling's own kernels compute everything. */
    static final Source NONE = (launcher, memory, sums, config) -> new Libraries(List.of(), List.of(), List.of(),
            List.of(), () -> { }, submissions -> null);

    /** Makes the libraries of a device. */
    @FunctionalInterface
    interface Source {
        /** Makes libraries that work on the launcher's stream, with working memory from {@code memory}. */
        Libraries of(Launcher launcher, Workspaces memory, ReductionKernels sums, CudaConfig config);
    }

    /** Returns NVIDIA's installed libraries, with cuDNN for the families that the configuration lists. */
    static Libraries nvidia(Launcher launcher, Workspaces memory, ReductionKernels sums, CudaConfig config) {
        CublasLt blas = new CublasLt(launcher.gpu(), launcher.stream(), memory, config);
        Cudnn cudnn = new Cudnn(launcher.gpu(), launcher.stream(), memory);
        Set<CudnnFamily> families = config.cudnn();
        return new Libraries(List.of(new CublasProducts(launcher, blas)),
                families.contains(CudnnFamily.CONVOLUTION)
                        ? List.of(new CudnnConvolution(cudnn, launcher, sums, config)) : List.of(),
                families.contains(CudnnFamily.ATTENTION)
                        ? List.of(new CudnnAttention(cudnn, launcher, config)) : List.of(),
                families.contains(CudnnFamily.RECURRENCE)
                        ? List.of(new CudnnRecurrence(cudnn, launcher, config)) : List.of(),
                () -> {
                    blas.isOpen();
                    if (!families.isEmpty()) {
                        cudnn.isOpen("Starling's own kernels compute instead, which are slower");
                    }
                }, submissions -> Nccl.open(launcher.gpu(), launcher.stream(), submissions));
    }
}
