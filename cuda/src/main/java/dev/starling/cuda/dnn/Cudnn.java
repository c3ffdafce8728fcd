package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ACTIVATION_IDENTITY;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ACTIVATION_RELU;
import static org.bytedeco.cuda.global.cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_CROSS_CORRELATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DEFAULT_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DETERMINISTIC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FMA_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_NOT_PROPAGATE_NAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_NHWC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_OP_MATH;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionBackwardData;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionBackwardFilter;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionBiasActivationForward;
import static org.bytedeco.cuda.global.cudnn.cudnnConvolutionForward;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateActivationDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateConvolutionDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateFilterDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardDataAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardDataWorkspaceSize;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionBackwardFilterWorkspaceSize;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionForwardAlgorithm_v7;
import static org.bytedeco.cuda.global.cudnn.cudnnGetConvolutionForwardWorkspaceSize;
import static org.bytedeco.cuda.global.cudnn.cudnnGetErrorString;
import static org.bytedeco.cuda.global.cudnn.cudnnSetActivationDescriptor;
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
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cudnn.cudnnActivationStruct;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnConvolutionBwdDataAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionBwdFilterAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionFwdAlgoPerf_t;
import org.bytedeco.cuda.cudnn.cudnnConvolutionStruct;
import org.bytedeco.cuda.cudnn.cudnnFilterStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.SizeTPointer;

/**
 * NVIDIA's cuDNN 9 by its convolution functions, channels last, on tensor cores for 16-bit types, which sum in f32. f32
 * is multiplied in full precision unless the property {@code starling.cuda.tf32} is true. The algorithm of a call is
 * the one that the library expects to be the fastest of those that give the same bits every time, or of all if the
 * property {@code starling.cuda.nondeterministic} is true; it is asked for once. What algorithms work in is lent by the
 * device's allocator for the time of a call.
 */
@SuppressWarnings("deprecation") // cuDNN 9 calls these functions its legacy interface and keeps them
public final class Cudnn implements Convolver {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int MOST_ALGORITHMS = 16;
    /** An algorithm that wants more is passed over. */
    private static final long MOST_WORKSPACE_BYTES = 1L << 30;

    private final Gpu gpu;
    private final Allocator memory;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final boolean anyBits = Boolean.getBoolean("starling.cuda.nondeterministic");
    private final cudnnContext handle = new cudnnContext();
    private final cudnnActivationStruct identity = new cudnnActivationStruct();
    private final cudnnActivationStruct relu = new cudnnActivationStruct();
    private final Map<ConvolutionCall, Plan> plans = new HashMap<>();
    private final Pointer one = new FloatPointer(1f);
    private final Pointer zero = new FloatPointer(0f);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer c = new RawPointer();
    private final RawPointer d = new RawPointer();
    private final RawPointer workspace = new RawPointer();

    /** What a convolution's functions compute. */
    private enum Pass { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT }

    /** How a pass is computed: {@code algorithm} is -1 where the library cannot. */
    private record Way(cudnnConvolutionStruct convolution, int algorithm, long bytes) {
        static final Way NONE = new Way(null, -1, 0);
    }

    /** A queued function of the library. */
    private interface Call {
        int queue(Way way);
    }

    /** A call's descriptors, and the ways of its passes as they were needed. */
    private static final class Plan {
        private final ConvolutionCall call;
        private final cudnnTensorStruct x = new cudnnTensorStruct();
        private final cudnnTensorStruct y = new cudnnTensorStruct();
        private final cudnnTensorStruct bias = new cudnnTensorStruct();
        private final cudnnFilterStruct weight = new cudnnFilterStruct();
        private final Map<Pass, Way> ways = new EnumMap<>(Pass.class);
        private boolean fuses = true;

        Plan(ConvolutionCall call) {
            this.call = call;
        }
    }

    private Cudnn(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        this.gpu = gpu;
        this.memory = memory;
        gpu.enter();
        check(cudnnCreate(handle), "cudnnCreate");
        check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
        activation(identity, CUDNN_ACTIVATION_IDENTITY);
        activation(relu, CUDNN_ACTIVATION_RELU);
    }

    private static void activation(cudnnActivationStruct activation, int mode) {
        check(cudnnCreateActivationDescriptor(activation), "cudnnCreateActivationDescriptor");
        // Behind a convolution it knows no other way with NaN.
        check(cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, Double.MAX_VALUE),
                "cudnnSetActivationDescriptor");
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static Convolver open(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        try {
            return new Cudnn(gpu, stream, memory);
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING,
                    "cuDNN does not load, convolutions will be slow: install cuDNN 9 for CUDA 13", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public synchronized boolean forward(ConvolutionCall call, long x, long weight, boolean adds, long y) {
        Plan p = plan(call);
        return run(p, Pass.FORWARD, "cudnnConvolutionForward", way -> cudnnConvolutionForward(handle, one, p.x, a.to(x),
                p.weight, b.to(weight), way.convolution, way.algorithm, workspace, way.bytes, adds ? one : zero, p.y,
                c.to(y)));
    }

    @Override
    public synchronized boolean forward(ConvolutionCall call, long x, long weight, long bias, boolean rectified,
            long y) {
        Plan p = plan(call);
        // Without an activation it takes this algorithm alone.
        if (!p.fuses || !rectified
                && way(p, Pass.FORWARD).algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {
            return false;
        }
        p.fuses = run(p, Pass.FORWARD, null, way -> cudnnConvolutionBiasActivationForward(handle, one, p.x, a.to(x),
                p.weight, b.to(weight), way.convolution, way.algorithm, workspace, way.bytes, zero, p.y, c.to(y),
                p.bias, d.to(bias), rectified ? relu : identity, p.y, c));
        return p.fuses;
    }

    @Override
    public synchronized boolean inputGradient(ConvolutionCall call, long g, long weight, long x) {
        Plan p = plan(call);
        return run(p, Pass.INPUT_GRADIENT, "cudnnConvolutionBackwardData", way -> cudnnConvolutionBackwardData(handle,
                one, p.weight, b.to(weight), p.y, a.to(g), way.convolution, way.algorithm, workspace, way.bytes, zero,
                p.x, c.to(x)));
    }

    @Override
    public synchronized boolean weightGradient(ConvolutionCall call, long x, long g, long weight) {
        Plan p = plan(call);
        return run(p, Pass.WEIGHT_GRADIENT, "cudnnConvolutionBackwardFilter", way -> cudnnConvolutionBackwardFilter(
                handle, one, p.x, a.to(x), p.y, b.to(g), way.convolution, way.algorithm, workspace, way.bytes, zero,
                p.weight, c.to(weight)));
    }

    /** Queues a function; one that is refused is not asked again, with a warning if it has a name. */
    private boolean run(Plan p, Pass pass, String function, Call call) {
        Way way = way(p, pass);
        if (way.algorithm < 0) {
            return false;
        }
        // What the block is lent for next is queued behind this.
        Block block = way.bytes == 0 ? null : memory.allocate(way.bytes);
        workspace.to(block == null ? 0 : block.address());
        int status = call.queue(way);
        if (block != null) {
            memory.free(block);
        }
        if (status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR) {
            if (function != null) {
                LOG.log(System.Logger.Level.WARNING, "{0} refuses what it offered, status {1}; a kernel of our own "
                        + "computes {2} from now on", function, status, p.call);
                p.ways.put(pass, Way.NONE);
            }
            return false;
        }
        check(status, function == null ? "cudnnConvolutionBiasActivationForward" : function);
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

    private static Plan describe(ConvolutionCall k) {
        Plan p = new Plan(k);
        int type = type(k);
        image(p.x, type, k.images(), k.channels(), k.height(), k.width());
        image(p.y, type, k.images(), k.outputs(), k.outHeight(), k.outWidth());
        image(p.bias, type, 1, k.outputs(), 1, 1);
        check(cudnnCreateFilterDescriptor(p.weight), "cudnnCreateFilterDescriptor");
        check(cudnnSetFilter4dDescriptor(p.weight, type, CUDNN_TENSOR_NHWC, k.outputs(), k.channels() / k.groups(),
                k.kernelHeight(), k.kernelWidth()), "cudnnSetFilter4dDescriptor");
        return p;
    }

    private static int type(ConvolutionCall call) {
        return switch (call.type()) {
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            default -> CUDNN_DATA_FLOAT;
        };
    }

    private static void image(cudnnTensorStruct tensor, int type, int images, int channels, int height, int width) {
        check(cudnnCreateTensorDescriptor(tensor), "cudnnCreateTensorDescriptor");
        check(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, type, images, channels, height, width),
                "cudnnSetTensor4dDescriptor");
    }

    private Way way(Plan p, Pass pass) {
        Way way = p.ways.get(pass);
        if (way == null) {
            way = find(p, pass);
            p.ways.put(pass, way);
        }
        return way;
    }

    /** Returns the first of what the library offers, best first, that suits. */
    private Way find(Plan p, Pass pass) {
        cudnnConvolutionStruct convolution = convolution(p.call);
        int[] found = new int[1];
        try (cudnnConvolutionFwdAlgoPerf_t offers = new cudnnConvolutionFwdAlgoPerf_t(MOST_ALGORITHMS)) {
            if (offers(p, pass, convolution, found, offers) != CUDNN_STATUS_SUCCESS) {
                return Way.NONE;
            }
            Way best = Way.NONE;
            for (int i = 0; i < found[0] && best == Way.NONE; i++) {
                cudnnConvolutionFwdAlgoPerf_t offer = offers.position(i);
                if (offer.status() == CUDNN_STATUS_SUCCESS
                        && (anyBits || offer.determinism() == CUDNN_DETERMINISTIC)) {
                    best = way(p, pass, convolution, offer.algo(), offer.mathType());
                }
            }
            offers.position(0);
            return best;
        }
    }

    private cudnnConvolutionStruct convolution(ConvolutionCall k) {
        cudnnConvolutionStruct convolution = new cudnnConvolutionStruct();
        check(cudnnCreateConvolutionDescriptor(convolution), "cudnnCreateConvolutionDescriptor");
        check(cudnnSetConvolution2dDescriptor(convolution, k.paddingHeight(), k.paddingWidth(), k.strideHeight(),
                k.strideWidth(), k.dilationHeight(), k.dilationWidth(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor");
        check(cudnnSetConvolutionGroupCount(convolution, k.groups()), "cudnnSetConvolutionGroupCount");
        check(cudnnSetConvolutionMathType(convolution, k.type() != DType.F32 ? CUDNN_TENSOR_OP_MATH
                : tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH), "cudnnSetConvolutionMathType");
        return convolution;
    }

    /** Asks for a pass's algorithms. The lists of the three passes have elements of one layout. */
    private int offers(Plan p, Pass pass, cudnnConvolutionStruct convolution, int[] found,
            cudnnConvolutionFwdAlgoPerf_t offers) {
        return switch (pass) {
            case FORWARD -> cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x, p.weight, convolution, p.y,
                    MOST_ALGORITHMS, found, offers);
            case INPUT_GRADIENT -> cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight, p.y, convolution, p.x,
                    MOST_ALGORITHMS, found, new cudnnConvolutionBwdDataAlgoPerf_t(offers));
            case WEIGHT_GRADIENT -> cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.x, p.y, convolution,
                    p.weight, MOST_ALGORITHMS, found, new cudnnConvolutionBwdFilterAlgoPerf_t(offers));
        };
    }

    /** Returns the way by an algorithm as it was offered, or none if it wants too much memory. */
    private Way way(Plan p, Pass pass, cudnnConvolutionStruct convolution, int algorithm, int math) {
        if (p.call.type() != DType.F32) {
            check(cudnnSetConvolutionMathType(convolution, math), "cudnnSetConvolutionMathType");
        }
        try (SizeTPointer bytes = new SizeTPointer(1)) {
            int status = switch (pass) {
                case FORWARD -> cudnnGetConvolutionForwardWorkspaceSize(handle, p.x, p.weight, convolution, p.y,
                        algorithm, bytes);
                case INPUT_GRADIENT -> cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p.weight, p.y, convolution,
                        p.x, algorithm, bytes);
                case WEIGHT_GRADIENT -> cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, p.x, p.y, convolution,
                        p.weight, algorithm, bytes);
            };
            return status == CUDNN_STATUS_SUCCESS && bytes.get() <= MOST_WORKSPACE_BYTES
                    ? new Way(convolution, algorithm, bytes.get()) : Way.NONE;
        }
    }

    private static void check(int status, String call) {
        if (status != CUDNN_STATUS_SUCCESS) {
            throw new GpuException(call + ": status " + status + ", " + cudnnGetErrorString(status).getString(),
                    "free memory of the GPU, and see whether all of cuDNN's libraries are of one version, for CUDA 13");
        }
    }
}
