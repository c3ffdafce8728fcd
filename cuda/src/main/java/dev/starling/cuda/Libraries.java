package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.CublasLt;
import dev.starling.cuda.dnn.Attender;
import dev.starling.cuda.dnn.Convolver;
import dev.starling.cuda.dnn.Cudnn;
import dev.starling.cuda.dnn.CudnnAttender;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.nccl.Nccl;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.DeviceCollectives;

/** The libraries that a backend uses beside its own kernels; each may be {@code null}. */
interface Libraries {
    /** None: all is done by our own kernels. */
    Libraries NONE = new Libraries() { };

    /** NVIDIA's, as far as they are installed. */
    Libraries NVIDIA = new Libraries() {
        @Override
        public Blas blas(Gpu gpu, Gpu.Stream stream) {
            return CublasLt.open(gpu, stream);
        }

        @Override
        public Convolver convolver(Gpu gpu, Gpu.Stream stream, Allocator memory) {
            return Cudnn.open(gpu, stream, memory);
        }

        @Override
        public Attender attender(Gpu gpu, Gpu.Stream stream, Allocator memory) {
            return CudnnAttender.open(gpu, stream, memory);
        }

        @Override
        public DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream) {
            return Nccl.open(gpu, stream);
        }
    };

    /** Returns what multiplies matrices. */
    default Blas blas(Gpu gpu, Gpu.Stream stream) {
        return null;
    }

    /** Returns what convolves, and takes memory to work in for the time of a call. */
    default Convolver convolver(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        return null;
    }

    /** Returns what attends, and takes memory to work in for the time of a call. */
    default Attender attender(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        return null;
    }

    /** Returns what sums over several GPUs. */
    default DeviceCollectives collectives(Gpu gpu, Gpu.Stream stream) {
        return null;
    }
}
