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
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NCHW;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NHWC;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnCreatePoolingDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
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
import dev.starling.tensor.DType;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnPoolingStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Pointer;

/** Average pooling and softmax by single functions of NVIDIA's cuDNN 9; they work in no memory but their operands'. */
@SuppressWarnings("deprecation") // cuDNN 9 calls these functions its legacy interface and keeps them
public final class CudnnFunctions implements Pooler, Softmaxer {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private final Gpu gpu;
    private final cudnnContext handle = new cudnnContext();
    private final Map<PoolingCall, Window> windows = new HashMap<>();
    private final Map<Softmaxer.Call, cudnnTensorStruct> lines = new HashMap<>();
    /** What the library refused once, by call. */
    private final Set<Record> refused = new HashSet<>();
    private final Pointer one = new FloatPointer(1f);
    private final Pointer zero = new FloatPointer(0f);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer c = new RawPointer();

    private record Window(cudnnPoolingStruct window, cudnnTensorStruct x, cudnnTensorStruct y) { }

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
            LOG.log(System.Logger.Level.WARNING, "cuDNN does not load, kernels of our own pool and normalise", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public synchronized boolean average(PoolingCall call, long x, long y) {
        if (refused.contains(call)) {
            return false;
        }
        gpu.enter();
        Window w = windows.computeIfAbsent(call, CudnnFunctions::window);
        return done(call, cudnnPoolingForward(handle, w.window, one, w.x, a.to(x), zero, w.y, b.to(y)));
    }

    @Override
    public synchronized boolean averageGradient(PoolingCall call, long g, long x) {
        if (refused.contains(call)) {
            return false;
        }
        gpu.enter();
        Window w = windows.computeIfAbsent(call, CudnnFunctions::window);
        // Means do not depend on y and x, for which memory of their sizes stands.
        return done(call, cudnnPoolingBackward(handle, w.window, one, w.y, a.to(g), w.y, a, w.x, b.to(x), zero, w.x,
                b));
    }

    @Override
    public synchronized boolean forward(Softmaxer.Call call, long x, long y) {
        if (refused.contains(call)) {
            return false;
        }
        gpu.enter();
        cudnnTensorStruct tensor = lines.computeIfAbsent(call, CudnnFunctions::lines);
        return done(call, cudnnSoftmaxForward(handle, algorithm(call), mode(call), one, tensor, a.to(x), zero, tensor,
                b.to(y)));
    }

    @Override
    public synchronized boolean backward(Softmaxer.Call call, long y, long g, long x) {
        if (refused.contains(call)) {
            return false;
        }
        gpu.enter();
        cudnnTensorStruct tensor = lines.computeIfAbsent(call, CudnnFunctions::lines);
        return done(call, cudnnSoftmaxBackward(handle, algorithm(call), mode(call), one, tensor, a.to(y), tensor,
                b.to(g), zero, tensor, c.to(x)));
    }

    private boolean done(Record call, int status) {
        if (status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses {0}, status {1}: a kernel of our own computes it from "
                    + "now on", call, status);
            refused.add(call);
            return false;
        }
        Descriptor.check(status, call.toString());
        return true;
    }

    private static Window window(PoolingCall k) {
        Window w = new Window(new cudnnPoolingStruct(), new cudnnTensorStruct(), new cudnnTensorStruct());
        Descriptor.check(cudnnCreatePoolingDescriptor(w.window), "cudnnCreatePoolingDescriptor");
        Descriptor.check(cudnnSetPooling2dDescriptor(w.window, k.countPadding()
                ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                CUDNN_PROPAGATE_NAN, k.kernelHeight(), k.kernelWidth(), k.paddingHeight(), k.paddingWidth(),
                k.strideHeight(), k.strideWidth()), "cudnnSetPooling2dDescriptor");
        int format = k.channelsLast() ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
        tensor(w.x, format, k.type(), k.images(), k.channels(), k.height(), k.width());
        tensor(w.y, format, k.type(), k.images(), k.channels(), k.outHeight(), k.outWidth());
        return w;
    }

    private static cudnnTensorStruct lines(Softmaxer.Call call) {
        cudnnTensorStruct tensor = new cudnnTensorStruct();
        tensor(tensor, CUDNN_TENSOR_NCHW, call.type(), call.outer(), call.size(), call.inner(), 1);
        return tensor;
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
