package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Attender;
import dev.starling.cuda.dnn.Convolver;
import dev.starling.cuda.dnn.CudnnAttender;
import dev.starling.cuda.dnn.CudnnConvolver;
import dev.starling.cuda.dnn.CudnnFunctions;
import dev.starling.cuda.dnn.CudnnNormalizer;
import dev.starling.cuda.dnn.CudnnRecurrer;
import dev.starling.cuda.dnn.Normalizer;
import dev.starling.cuda.dnn.Pooler;
import dev.starling.cuda.dnn.Recurrer;
import dev.starling.cuda.dnn.Softmaxer;
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
        return new Libraries() {
            @Override
            public Blas blas(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
                return CublasLt.open(gpu, stream, memory);
            }

            @Override
            public Convolver convolver(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
                return families.contains(CudnnFamily.CONVOLUTION) ? CudnnConvolver.open(gpu, stream, memory) : null;
            }

            @Override
            public Attender attender(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
                return families.contains(CudnnFamily.ATTENTION) ? CudnnAttender.open(gpu, stream, memory) : null;
            }

            @Override
            public Normalizer normalizer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
                return families.contains(CudnnFamily.NORMALIZATION) ? CudnnNormalizer.open(gpu, stream, memory) : null;
            }

            @Override
            public Pooler pooler(Gpu gpu, Gpu.Stream stream) {
                return families.contains(CudnnFamily.POOLING) ? CudnnFunctions.open(gpu, stream) : null;
            }

            @Override
            public Softmaxer softmaxer(Gpu gpu, Gpu.Stream stream) {
                return families.contains(CudnnFamily.SOFTMAX) ? CudnnFunctions.open(gpu, stream) : null;
            }

            @Override
            public Recurrer recurrer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
                return families.contains(CudnnFamily.RECURRENCE) ? CudnnRecurrer.open(gpu, stream, memory) : null;
            }

            @Override
            public DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream, Lock queueing) {
                return Nccl.open(gpu, stream, queueing);
            }
        };
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

    /** Returns what normalises, and takes memory to work in for the time of a call. */
    default Normalizer normalizer(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        return null;
    }

    /** Returns what averages windows. */
    default Pooler pooler(Gpu gpu, Gpu.Stream stream) {
        return null;
    }

    /** Returns what normalises exponentials. */
    default Softmaxer softmaxer(Gpu gpu, Gpu.Stream stream) {
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
}
