package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.dnn.Attender;
import dev.starling.cuda.dnn.Convolver;
import dev.starling.cuda.dnn.CudnnAttender;
import dev.starling.cuda.dnn.CudnnConvolver;
import dev.starling.cuda.dnn.CudnnRecurrer;
import dev.starling.cuda.dnn.Recurrer;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.spi.DeviceCollectives;
import java.util.Set;
import java.util.concurrent.locks.Lock;

/** The libraries that a backend uses beside its own kernels; each may be {@code null}. */
interface Libraries {
    /** None: all is done by our own kernels. */
    Libraries NONE = new Libraries() { };

    /** NVIDIA's, as far as they are installed, cuDNN for some families of operations. */
    static Libraries nvidia(Set<CudnnFamily> families) {
        return new Installed(families);
    }

    /** Returns what multiplies matrices; {@code memory} tells when a graph is being made. */
    default Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns what convolves, and takes memory to work in for the time of a call. */
    default Convolver convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns what attends, and takes memory to work in for the time of a call. */
    default Attender attender(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns what runs recurrent layers, and takes memory to work in for the time of a call. */
    default Recurrer recurrer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns what sums over several GPUs, and takes a lock that is held by who queues work on {@code stream}. */
    default DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream, Lock queueing) {
        return null;
    }

    /** Opens the libraries that have not been asked yet: opening one may wait, which no graph can take down. */
    default void open() { }

    /** NVIDIA's libraries, each of which is opened when it is first asked. One for each device. */
    final class Installed implements Libraries {
        private final Set<CudnnFamily> families;
        private CublasLt blas;
        private Cudnn cudnn;

        private Installed(Set<CudnnFamily> families) {
            this.families = families;
        }

        /** All families share one handle. */
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
        public Convolver convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.CONVOLUTION)
                    ? new CudnnConvolver(cudnn(gpu, stream, memory)) : null;
        }

        @Override
        public Attender attender(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.ATTENTION)
                    ? new CudnnAttender(cudnn(gpu, stream, memory), gpu) : null;
        }

        @Override
        public Recurrer recurrer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
            return families.contains(CudnnFamily.RECURRENCE)
                    ? new CudnnRecurrer(cudnn(gpu, stream, memory)) : null;
        }

        @Override
        public DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream, Lock queueing) {
            return Nccl.open(gpu, stream, queueing);
        }

        @Override
        public void open() {
            blas.isOpen();
            if (cudnn != null) {
                cudnn.isOpen("kernels of our own compute, which are slower");
            }
        }
    }
}
