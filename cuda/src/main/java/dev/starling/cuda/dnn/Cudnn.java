package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_CROSS_CORRELATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DETERMINISTIC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FMA_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NHWC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_OP_MATH;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionBackwardData;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionBackwardFilter;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionForward;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateConvolutionDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateFilterDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardDataAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionForwardAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetErrorString;
import static org.bytedeco.cuda.global.cudnn.cudnnSetConvolution2dDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetConvolutionGroupCount;
import static org.bytedeco.cuda.global.cudnn.cudnnSetConvolutionMathType;
import static org.bytedeco.cuda.global.cudnn.cudnnSetFilter4dDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;
import static org.bytedeco.cuda.global.cudnn.cudnnSetTensor4dDescriptor;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnConvolutionBwdDataAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionBwdFilterAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionFwdAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionStruct;
import org.bytedeco.cuda.cudnn.cudnnFilterStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Pointer;

/**
 * NVIDIA's cuDNN 9 by its convolution functions, channels last, on tensor cores for 16-bit types, which sum in f32. f32
 * is multiplied in full precision unless the property {@code starling.cuda.tf32} is true. The algorithm of a call is
 * the one that the library expects to be the fastest of those that give the same bits every time; it is asked for once.
 */
@SuppressWarnings("deprecation") // cuDNN 9 calls these functions its legacy interface and keeps them
public final class Cudnn implements Convolver {
    private static final int MOST_ALGORITHMS = 8;
    /** An algorithm that wants more is passed over. */
    private static final long MOST_WORKSPACE_BYTES = 1L << 30;

    private final NvidiaGpu gpu;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final cudnnContext handle = new cudnnContext();
    private final Map<ConvolutionCall, Plan> plans = new HashMap<>();
    private final Pointer one = new FloatPointer(1f);
    private final Pointer zero = new FloatPointer(0f);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer c = new RawPointer();
    private final RawPointer workspace = new RawPointer();
    private long workspaceBytes;

    /** An algorithm and what memory it works in; {@code number} is -1 where there is none. */
    private record Algorithm(int number, long bytes) {
        static final Algorithm NONE = new Algorithm(-1, 0);
    }

    /** A call's descriptors and algorithms, which are looked for when they are needed. */
    private static final class Plan {
        private final cudnnTensorStruct x = new cudnnTensorStruct();
        private final cudnnTensorStruct y = new cudnnTensorStruct();
        private final cudnnFilterStruct weight = new cudnnFilterStruct();
        private final cudnnConvolutionStruct convolution = new cudnnConvolutionStruct();
        private Algorithm forward;
        private Algorithm inputGradient;
        private Algorithm weightGradient;
    }

    private Cudnn(NvidiaGpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        gpu.enter();
        check(cudnnCreate(handle), "cudnnCreate");
        check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static Convolver open(NvidiaGpu gpu, Gpu.Stream stream) {
        try {
            return new Cudnn(gpu, stream);
        } catch (LinkageError e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.WARNING,
                    "cuDNN does not load, convolutions will be slow: install cuDNN 9 for CUDA 13", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public synchronized boolean forward(ConvolutionCall call, long x, long weight, long y) {
        Plan p = plan(call);
        if (p.forward == null) {
            p.forward = forwardAlgorithm(p);
        }
        if (!ready(p.forward)) {
            return false;
        }
        check(cudnnConvolutionForward(handle, one, p.x, a.to(x), p.weight, b.to(weight), p.convolution,
                p.forward.number, workspace, p.forward.bytes, zero, p.y, c.to(y)), "cudnnConvolutionForward");
        return true;
    }

    @Override
    public synchronized boolean inputGradient(ConvolutionCall call, long g, long weight, long x) {
        Plan p = plan(call);
        if (p.inputGradient == null) {
            p.inputGradient = inputGradientAlgorithm(p);
        }
        if (!ready(p.inputGradient)) {
            return false;
        }
        check(cudnnConvolutionBackwardData(handle, one, p.weight, b.to(weight), p.y, a.to(g), p.convolution,
                p.inputGradient.number, workspace, p.inputGradient.bytes, zero, p.x, c.to(x)),
                "cudnnConvolutionBackwardData");
        return true;
    }

    @Override
    public synchronized boolean weightGradient(ConvolutionCall call, long x, long g, long weight) {
        Plan p = plan(call);
        if (p.weightGradient == null) {
            p.weightGradient = weightGradientAlgorithm(p);
        }
        if (!ready(p.weightGradient)) {
            return false;
        }
        check(cudnnConvolutionBackwardFilter(handle, one, p.x, a.to(x), p.y, b.to(g), p.convolution,
                p.weightGradient.number, workspace, p.weightGradient.bytes, zero, p.weight, c.to(weight)),
                "cudnnConvolutionBackwardFilter");
        return true;
    }

    private Plan plan(ConvolutionCall call) {
        gpu.enter();
        Plan p = plans.get(call);
        if (p == null) {
            p = describe(call);
            plans.put(call, p);
        }
        return p;
    }

    private Plan describe(ConvolutionCall k) {
        Plan p = new Plan();
        int type = switch (k.type()) {
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            default -> CUDNN_DATA_FLOAT;
        };
        check(cudnnCreateTensorDescriptor(p.x), "cudnnCreateTensorDescriptor");
        check(cudnnCreateTensorDescriptor(p.y), "cudnnCreateTensorDescriptor");
        check(cudnnCreateFilterDescriptor(p.weight), "cudnnCreateFilterDescriptor");
        check(cudnnCreateConvolutionDescriptor(p.convolution), "cudnnCreateConvolutionDescriptor");
        check(cudnnSetTensor4dDescriptor(p.x, CUDNN_TENSOR_NHWC, type, k.images(), k.channels(), k.height(),
                k.width()), "cudnnSetTensor4dDescriptor");
        check(cudnnSetTensor4dDescriptor(p.y, CUDNN_TENSOR_NHWC, type, k.images(), k.outputs(), k.outHeight(),
                k.outWidth()), "cudnnSetTensor4dDescriptor");
        check(cudnnSetFilter4dDescriptor(p.weight, type, CUDNN_TENSOR_NHWC, k.outputs(), k.channels() / k.groups(),
                k.kernelHeight(), k.kernelWidth()), "cudnnSetFilter4dDescriptor");
        check(cudnnSetConvolution2dDescriptor(p.convolution, k.paddingHeight(), k.paddingWidth(), k.strideHeight(),
                k.strideWidth(), k.dilationHeight(), k.dilationWidth(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor");
        check(cudnnSetConvolutionGroupCount(p.convolution, k.groups()), "cudnnSetConvolutionGroupCount");
        check(cudnnSetConvolutionMathType(p.convolution, k.type() == DType.F32 && !tf32 ? CUDNN_FMA_MATH
                : CUDNN_TENSOR_OP_MATH), "cudnnSetConvolutionMathType");
        return p;
    }

    private Algorithm forwardAlgorithm(Plan p) {
        int[] found = new int[1];
        try (cudnnConvolutionFwdAlgoPerf_t list = new cudnnConvolutionFwdAlgoPerf_t(MOST_ALGORITHMS)) {
            check(cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x, p.weight, p.convolution, p.y, MOST_ALGORITHMS,
                    found, list), "cudnnGetConvolutionForwardAlgorithm_v7");
            Algorithm best = Algorithm.NONE;
            for (int i = 0; i < found[0] && best == Algorithm.NONE; i++) {
                cudnnConvolutionFwdAlgoPerf_t e = list.position(i);
                best = suits(e.status(), e.determinism(), e.memory()) ? new Algorithm(e.algo(), e.memory()) : best;
            }
            list.position(0);
            return best;
        }
    }

    private Algorithm inputGradientAlgorithm(Plan p) {
        int[] found = new int[1];
        try (cudnnConvolutionBwdDataAlgoPerf_t list = new cudnnConvolutionBwdDataAlgoPerf_t(MOST_ALGORITHMS)) {
            check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight, p.y, p.convolution, p.x,
                    MOST_ALGORITHMS, found, list), "cudnnGetConvolutionBackwardDataAlgorithm_v7");
            Algorithm best = Algorithm.NONE;
            for (int i = 0; i < found[0] && best == Algorithm.NONE; i++) {
                cudnnConvolutionBwdDataAlgoPerf_t e = list.position(i);
                best = suits(e.status(), e.determinism(), e.memory()) ? new Algorithm(e.algo(), e.memory()) : best;
            }
            list.position(0);
            return best;
        }
    }

    private Algorithm weightGradientAlgorithm(Plan p) {
        int[] found = new int[1];
        try (cudnnConvolutionBwdFilterAlgoPerf_t list = new cudnnConvolutionBwdFilterAlgoPerf_t(MOST_ALGORITHMS)) {
            check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.x, p.y, p.convolution, p.weight,
                    MOST_ALGORITHMS, found, list), "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
            Algorithm best = Algorithm.NONE;
            for (int i = 0; i < found[0] && best == Algorithm.NONE; i++) {
                cudnnConvolutionBwdFilterAlgoPerf_t e = list.position(i);
                best = suits(e.status(), e.determinism(), e.memory()) ? new Algorithm(e.algo(), e.memory()) : best;
            }
            list.position(0);
            return best;
        }
    }

    private static boolean suits(int status, int determinism, long bytes) {
        return status == CUDNN_STATUS_SUCCESS && determinism == CUDNN_DETERMINISTIC && bytes <= MOST_WORKSPACE_BYTES;
    }

    /** Sees to it that the workspace is large enough; returns whether there is an algorithm and memory for it. */
    private boolean ready(Algorithm algorithm) {
        if (algorithm.number < 0) {
            return false;
        }
        if (algorithm.bytes > workspaceBytes) {
            long larger = gpu.allocate(algorithm.bytes);
            if (larger == 0) {
                return false;
            }
            if (workspaceBytes > 0) {
                gpu.free(workspace.address());
            }
            workspace.to(larger);
            workspaceBytes = algorithm.bytes;
        }
        return true;
    }

    private static void check(int status, String call) {
        if (status != CUDNN_STATUS_SUCCESS) {
            throw new GpuException(call + ": status " + status + ", " + cudnnGetErrorString(status).getString());
        }
    }
}
