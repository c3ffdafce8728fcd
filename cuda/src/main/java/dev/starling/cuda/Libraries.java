package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.dnn.AttentionLibrary;
import dev.starling.cuda.dnn.ConvolutionLibrary;
import dev.starling.cuda.dnn.CudnnAttention;
import dev.starling.cuda.dnn.CudnnConvolution;
import dev.starling.cuda.dnn.CudnnRecurrence;
import dev.starling.cuda.dnn.RecurrenceLibrary;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.spi.DeviceCollectives;
import java.util.Set;
import java.util.concurrent.locks.Lock;

/** The vendor's libraries that a backend uses beside its own kernels; each may be {@code null}. */
interface Libraries {
    /** No libraries: Starling's own kernels compute everything. */
    Libraries NONE = new Libraries() { };

    /** NVIDIA's installed libraries, with cuDNN for the given families of operations. */
    static Libraries nvidia(Set<CudnnFamily> families) {
        return new Installed(families);
    }

    /** Returns the library for matrix products. {@code memory} reports whether a graph is being captured. */
    default Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns the library for convolutions, which takes workspaces from {@code memory}. */
    default ConvolutionLibrary convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns the library for attention, which takes workspaces from {@code memory}. */
    default AttentionLibrary attender(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns the library for recurrent layers, which takes workspaces from {@code memory}. */
    default RecurrenceLibrary recurrer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /**
     * Returns the library for sums over several GPUs. It holds {@code queueing} while it queues work on {@code stream}.
     */
    default DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream, Lock queueing) {
        return null;
    }

    /** Opens the libraries that are not open yet. Opening one may block, which is not allowed during a capture. */
    default void open() { }

    /** NVIDIA's libraries for one device, each opened at its first use. */
    final class Installed implements Libraries {
        private final Set<CudnnFamily> families;
        private CublasLt blas;
        private Cudnn cudnn;

        private Installed(Set<CudnnFamily> families) {
            this.families = families;
        }

        /** Returns the handle that all families share. */
        private Cudnn cudnn(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            if (cudnn == null) {
                cudnn = new Cudnn(gpu, stream, memory);
            }
            return cudnn;
        }

        @Override
        public Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            blas = new CublasLt(gpu, stream, memory);
            return blas;
        }

        @Override
        public ConvolutionLibrary convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.CONVOLUTION)
                    ? new CudnnConvolution(cudnn(gpu, stream, memory)) : null;
        }

        @Override
        public AttentionLibrary attender(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.ATTENTION)
                    ? new CudnnAttention(cudnn(gpu, stream, memory), gpu) : null;
        }

        @Override
        public RecurrenceLibrary recurrer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.RECURRENCE)
                    ? new CudnnRecurrence(cudnn(gpu, stream, memory)) : null;
        }

        @Override
        public DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream, Lock queueing) {
            return Nccl.open(gpu, stream, queueing);
        }

        @Override
        public void open() {
            blas.isOpen();
            if (cudnn != null) {
                cudnn.isOpen("Starling's own kernels compute instead, which are slower");
            }
        }
    }
}
