import org.jspecify.annotations.NullMarked;

/** The backend for NVIDIA GPUs. It exports nothing: {@code Device.cuda(0)} finds it where it is on the path. */
@NullMarked
module dev.starling.cuda {
    requires static transitive org.jspecify;
    requires dev.starling.tensor;
    requires org.bytedeco.cuda;
    requires org.bytedeco.javacpp;

    provides dev.starling.tensor.spi.BackendProvider with dev.starling.cuda.CudaProvider;
}
