package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
import static org.bytedeco.cuda.global.cudnn.CUDNN_PROPAGATE_NAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_SOFTMAX_ACCURATE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_SOFTMAX_LOG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_SOFTMAX_MODE_CHANNEL;
import static org.bytedeco.cuda.global.cudnn.CUDNN_SOFTMAX_MODE_INSTANCE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NCHW;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NHWC;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnCreatePoolingDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyPoolingDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnPoolingBackward;
import static org.bytedeco.cuda.global.cudnn.cudnnPoolingForward;
import static org.bytedeco.cuda.global.cudnn.cudnnSetPooling2dDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;
import static org.bytedeco.cuda.global.cudnn.cudnnSetTensor4dDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSoftmaxBackward;
import static org.bytedeco.cuda.global.cudnn.cudnnSoftmaxForward;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.memory.LastUsed;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.function.Function;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnPoolingStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;

/** Average pooling and softmax by single functions of NVIDIA's cuDNN 9; they work in no memory but their operands'. */
@SuppressWarnings("deprecation") // cuDNN 9 calls these functions its legacy interface and keeps them
public final class CudnnFunctions implements Pooler, Softmaxer {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private static final int MOST_CALLS = 1024;

    private final Gpu gpu;
    private final cudnnContext handle = new cudnnContext();
    private final LastUsed<Record, Tensors> known = new LastUsed<>(MOST_CALLS, t -> true);
    private final RawPointer one = constant(1);
    private final RawPointer zero = constant(0);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer c = new RawPointer();
    private boolean told;

    /** The descriptors of a call, which the library reads while it is called; {@code null} for what has none. */
    private static final class Tensors {
        private final cudnnPoolingStruct window;
        private final cudnnTensorStruct x = new cudnnTensorStruct();
        private final cudnnTensorStruct y;
        private boolean refused;

        Tensors(cudnnPoolingStruct window, cudnnTensorStruct y) {
            this.window = window;
            this.y = y;
        }

        void destroy() {
            cudnnDestroyTensorDescriptor(x);
            if (window != null) {
                cudnnDestroyPoolingDescriptor(window);
                cudnnDestroyTensorDescriptor(y);
            }
        }
    }

    private static RawPointer constant(float value) {
        return RawPointer.of(Arena.global().allocateFrom(ValueLayout.JAVA_FLOAT, value));
    }

    private CudnnFunctions(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        gpu.enter();
        Descriptor.check(cudnnCreate(handle), "cudnnCreate");
        Descriptor.check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static CudnnFunctions open(Gpu gpu, Gpu.Stream stream) {
        try {
            return new CudnnFunctions(gpu, stream);
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN does not load, kernels of our own pool and normalise: "
                    + Redist.remedy("cuDNN 9 for CUDA 13", "-cudnn"), e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public synchronized boolean average(PoolingCall call, long x, long y) {
        Tensors t = of(call, CudnnFunctions::window);
        return !t.refused && done(call, t, cudnnPoolingForward(handle, t.window, one, t.x, a.to(x), zero, t.y,
                b.to(y)));
    }

    @Override
    public synchronized boolean averageGradient(PoolingCall call, long g, long x) {
        Tensors t = of(call, CudnnFunctions::window);
        // Means do not depend on y and x, for which memory of their sizes stands.
        return !t.refused && done(call, t, cudnnPoolingBackward(handle, t.window, one, t.y, a.to(g), t.y, a, t.x,
                b.to(x), zero, t.x, b));
    }

    @Override
    public synchronized boolean forward(Softmaxer.Call call, long x, long y) {
        Tensors t = of(call, CudnnFunctions::lines);
        return !t.refused && done(call, t, cudnnSoftmaxForward(handle, algorithm(call), mode(call), one, t.x, a.to(x),
                zero, t.x, b.to(y)));
    }

    @Override
    public synchronized boolean backward(Softmaxer.Call call, long y, long g, long x) {
        Tensors t = of(call, CudnnFunctions::lines);
        return !t.refused && done(call, t, cudnnSoftmaxBackward(handle, algorithm(call), mode(call), one, t.x, a.to(y),
                t.x, b.to(g), zero, t.x, c.to(x)));
    }

    private <C extends Record> Tensors of(C call, Function<C, Tensors> maker) {
        gpu.enter();
        Tensors tensors = known.get(call);
        if (tensors == null) {
            tensors = maker.apply(call);
            known.put(call, tensors);
            known.overdue().forEach(Tensors::destroy);
        }
        return tensors;
    }

    private boolean done(Record call, Tensors tensors, int status) {
        if (CudnnException.isRefusal(status)) {
            LOG.log(told ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING, "cuDNN refuses {0} ({1}): a kernel "
                    + "of our own computes it from now on{2}", call, CudnnException.words("a function", status),
                    told ? "" : ". Others like it are told at level DEBUG");
            told = true;
            tensors.refused = true;
            return false;
        }
        Descriptor.check(status, "a function");
        return true;
    }

    private static Tensors window(PoolingCall k) {
        Tensors t = new Tensors(new cudnnPoolingStruct(), new cudnnTensorStruct());
        Descriptor.check(cudnnCreatePoolingDescriptor(t.window), "cudnnCreatePoolingDescriptor");
        Descriptor.check(cudnnSetPooling2dDescriptor(t.window, k.countPadding()
                ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                CUDNN_PROPAGATE_NAN, k.kernelHeight(), k.kernelWidth(), k.paddingHeight(), k.paddingWidth(),
                k.strideHeight(), k.strideWidth()), "cudnnSetPooling2dDescriptor");
        int format = k.channelsLast() ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
        tensor(t.x, format, k.type(), k.images(), k.channels(), k.height(), k.width());
        tensor(t.y, format, k.type(), k.images(), k.channels(), k.outHeight(), k.outWidth());
        return t;
    }

    private static Tensors lines(Softmaxer.Call call) {
        Tensors t = new Tensors(null, null);
        tensor(t.x, CUDNN_TENSOR_NCHW, call.type(), call.outer(), call.size(), call.inner(), 1);
        return t;
    }

    private static int algorithm(Softmaxer.Call call) {
        return call.logarithms() ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
    }

    private static int mode(Softmaxer.Call call) {
        return call.inner() == 1 ? CUDNN_SOFTMAX_MODE_INSTANCE : CUDNN_SOFTMAX_MODE_CHANNEL;
    }

    private static void tensor(cudnnTensorStruct tensor, int format, DType type, int n, int c, int h, int w) {
        Descriptor.check(cudnnCreateTensorDescriptor(tensor), "cudnnCreateTensorDescriptor");
        int number = switch (type) {
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            default -> CUDNN_DATA_FLOAT;
        };
        Descriptor.check(cudnnSetTensor4dDescriptor(tensor, format, number, n, c, h, w), "cudnnSetTensor4dDescriptor");
    }
}
