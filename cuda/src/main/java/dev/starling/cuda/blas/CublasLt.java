package dev.starling.cuda.blas;

import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_BGRADB;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DEFAULT;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DGELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DRELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_AUX;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_RELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_RELU_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_BIAS_POINTER;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_EPILOGUE;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_TRANSA;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_DESC_TRANSB;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_REDUCTION_SCHEME_MASK;
import static org.bytedeco.cuda.global.cublas.CUBLAS_COMPUTE_32F;
import static org.bytedeco.cuda.global.cublas.CUBLAS_COMPUTE_32F_FAST_TF32;
import static org.bytedeco.cuda.global.cublas.CUBLAS_COMPUTE_64F;
import static org.bytedeco.cuda.global.cublas.CUBLAS_OP_N;
import static org.bytedeco.cuda.global.cublas.CUBLAS_OP_T;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_INVALID_VALUE;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cublas.cublasLtCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtGetStatusString;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmul;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulAlgoGetHeuristic;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutSetAttribute;
import static org.bytedeco.cuda.global.cudart.CUDA_R_16BF;
import static org.bytedeco.cuda.global.cudart.CUDA_R_16F;
import static org.bytedeco.cuda.global.cudart.CUDA_R_32F;
import static org.bytedeco.cuda.global.cudart.CUDA_R_64F;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cublas.cublasLtMatmulAlgo_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulDescOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulHeuristicResult_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulPreferenceOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatrixLayoutOpaque_t;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;

/**
 * NVIDIA's cuBLASLt. The algorithm for a call is asked for once and kept. f32 is multiplied in full precision unless
 * the property {@code starling.cuda.tf32} is true; 16-bit types sum in f32, also the parts of divided sums. All
 * calls share one workspace, which stays where it is: they run one after the other.
 */
public final class CublasLt implements Blas {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    /** What NVIDIA recommends for compute capability 9.0. */
    private static final long WORKSPACE_BYTES = 32L << 20;

    private final Gpu gpu;
    private final CUstream_st stream;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final cublasLtContext handle = new cublasLtContext();
    private final Pointer workspace;
    private final Map<MatrixCall, Plan> plans = new HashMap<>();
    private final Pointer one32 = new FloatPointer(1f);
    private final Pointer zero32 = new FloatPointer(0f);
    private final Pointer one64 = new DoublePointer(1d);
    private final Pointer zero64 = new DoublePointer(0d);
    private final LongPointer number = new LongPointer(1);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer y = new RawPointer();

    /** What the library made of a call; {@code algorithm}, a part of {@code offer}, is null where it has none. */
    private record Plan(cublasLtMatmulDescOpaque_t product, cublasLtMatrixLayoutOpaque_t left,
            cublasLtMatrixLayoutOpaque_t right, cublasLtMatrixLayoutOpaque_t result,
            cublasLtMatmulHeuristicResult_t offer, cublasLtMatmulAlgo_t algorithm) {
        Plan unusable() {
            return new Plan(product, left, right, result, offer, null);
        }
    }

    private CublasLt(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = NvidiaGpu.handle(stream);
        gpu.enter();
        check(cublasLtCreate(handle), "cublasLtCreate");
        long address = gpu.allocate(WORKSPACE_BYTES);
        workspace = new RawPointer().to(address);
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static Blas open(Gpu gpu, Gpu.Stream stream) {
        try {
            return new CublasLt(gpu, stream);
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING,
                    "cuBLASLt does not load, products of matrices will be slow: install CUDA 13's libcublas", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type.isFloating();
    }

    @Override
    public synchronized boolean multiply(MatrixCall call, long aAddress, long bAddress, long biasAddress,
            long sideAddress, long yAddress) {
        gpu.enter();
        Plan plan = plans.get(call);
        if (plan == null) {
            plan = plan(call, biasAddress, sideAddress);
            plans.put(call, plan);
        }
        if (plan.algorithm == null) {
            return false;
        }
        point(plan.product, biasAddress, sideAddress);
        boolean wide = call.type() == DType.F64;
        int status = cublasLtMatmul(handle, plan.product, wide ? one64 : one32, b.to(bAddress), plan.left,
                a.to(aAddress), plan.right, wide ? zero64 : zero32, y.to(yAddress), plan.result, y, plan.result,
                plan.algorithm, workspace, workspaceBytes(), stream);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
            LOG.log(System.Logger.Level.WARNING, "cuBLASLt refuses what it offered, status {0}; a kernel of our own "
                    + "computes {1} from now on", status, call);
            plans.put(call, plan.unusable());
            return false;
        }
        check(status, "cublasLtMatmul");
        return true;
    }

    private long workspaceBytes() {
        return workspace.isNull() ? 0 : WORKSPACE_BYTES;
    }

    private void point(cublasLtMatmulDescOpaque_t product, long bias, long side) {
        if (bias != 0) {
            setLong(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        }
        if (side != 0) {
            setLong(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, side);
        }
    }

    private Plan plan(MatrixCall call, long biasAddress, long sideAddress) {
        int type = type(call.type());
        cublasLtMatmulDescOpaque_t product = product(call);
        // Which algorithms there are depends on the alignment of these.
        point(product, biasAddress, sideAddress);
        if (sideAddress != 0) {
            setLong(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.sideLeading());
            setLong(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                    call.batches() > 1 ? call.resultBatch() : 0);
        }
        MatrixCall.Operand l = call.left();
        MatrixCall.Operand r = call.right();
        cublasLtMatrixLayoutOpaque_t left = l.transposed() ? layout(type, call.k(), call.m(), l.leading())
                : layout(type, call.m(), call.k(), l.leading());
        cublasLtMatrixLayoutOpaque_t right = r.transposed() ? layout(type, call.n(), call.k(), r.leading())
                : layout(type, call.k(), call.n(), r.leading());
        cublasLtMatrixLayoutOpaque_t result = layout(type, call.m(), call.n(), call.m());
        if (call.batches() > 1) {
            batch(left, call.batches(), l.batch());
            batch(right, call.batches(), r.batch());
            batch(result, call.batches(), call.resultBatch());
        }
        cublasLtMatmulHeuristicResult_t offer = new cublasLtMatmulHeuristicResult_t();
        int[] found = new int[1];
        cublasLtMatmulPreferenceOpaque_t preference = preference(call);
        int error = cublasLtMatmulAlgoGetHeuristic(handle, product, left, right, result, result, preference, 1,
                offer, found);
        cublasLtMatmulPreferenceDestroy(preference);
        boolean usable = error == CUBLAS_STATUS_SUCCESS && found[0] > 0
                && offer.state() == CUBLAS_STATUS_SUCCESS;
        return new Plan(product, left, right, result, offer, usable ? offer.algo() : null);
    }

    private cublasLtMatmulDescOpaque_t product(MatrixCall call) {
        int compute = switch (call.type()) {
            case F64 -> CUBLAS_COMPUTE_64F;
            case F32 -> tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
            default -> CUBLAS_COMPUTE_32F;
        };
        cublasLtMatmulDescOpaque_t product;
        try (PointerPointer<cublasLtMatmulDescOpaque_t> p = new PointerPointer<>(1)) {
            check(cublasLtMatmulDescCreate(p, compute, call.type() == DType.F64 ? CUDA_R_64F : CUDA_R_32F),
                    "cublasLtMatmulDescCreate");
            product = p.get(cublasLtMatmulDescOpaque_t.class, 0);
        }
        set(product, CUBLASLT_MATMUL_DESC_TRANSA, call.left().transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(product, CUBLASLT_MATMUL_DESC_TRANSB, call.right().transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(call));
        return product;
    }

    /** Returns the library's number of what follows the product. */
    static int epilogue(MatrixCall call) {
        return switch (call.after()) {
            case NOTHING -> call.bias() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
            case RELU -> call.bias() ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
            case GELU -> call.bias() ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
            case GELU_KEPT -> call.bias() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
            case RELU_GRADIENT -> CUBLASLT_EPILOGUE_DRELU;
            case GELU_GRADIENT -> CUBLASLT_EPILOGUE_DGELU;
            case COLUMN_SUMS -> CUBLASLT_EPILOGUE_BGRADB;
        };
    }

    private static int type(DType type) {
        return switch (type) {
            case F64 -> CUDA_R_64F;
            case F32 -> CUDA_R_32F;
            case BF16 -> CUDA_R_16BF;
            case F16 -> CUDA_R_16F;
            default -> throw new IllegalArgumentException("no matrices of " + type);
        };
    }

    private static cublasLtMatrixLayoutOpaque_t layout(int type, long rows, long columns, long leading) {
        try (PointerPointer<cublasLtMatrixLayoutOpaque_t> p = new PointerPointer<>(1)) {
            check(cublasLtMatrixLayoutCreate(p, type, rows, columns, leading), "cublasLtMatrixLayoutCreate");
            return p.get(cublasLtMatrixLayoutOpaque_t.class, 0);
        }
    }

    private static void batch(cublasLtMatrixLayoutOpaque_t layout, int count, long distance) {
        try (IntPointer n = new IntPointer(new int[] {count});
                LongPointer step = new LongPointer(new long[] {distance})) {
            check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, n, Integer.BYTES),
                    "cublasLtMatrixLayoutSetAttribute");
            check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step,
                    Long.BYTES), "cublasLtMatrixLayoutSetAttribute");
        }
    }

    private cublasLtMatmulPreferenceOpaque_t preference(MatrixCall call) {
        try (PointerPointer<cublasLtMatmulPreferenceOpaque_t> p = new PointerPointer<>(1);
                LongPointer bytes = new LongPointer(new long[] {workspaceBytes()});
                IntPointer aligned = new IntPointer(new int[] {call.alignment()});
                IntPointer sums = new IntPointer(new int[] {call.type().bytes() == Short.BYTES
                        ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK})) {
            check(cublasLtMatmulPreferenceCreate(p), "cublasLtMatmulPreferenceCreate");
            cublasLtMatmulPreferenceOpaque_t preference = p.get(cublasLtMatmulPreferenceOpaque_t.class, 0);
            check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes,
                    Long.BYTES), "cublasLtMatmulPreferenceSetAttribute");
            check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums,
                    Integer.BYTES), "cublasLtMatmulPreferenceSetAttribute");
            for (int attribute : new int[] {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
                check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, aligned, Integer.BYTES),
                        "cublasLtMatmulPreferenceSetAttribute");
            }
            return preference;
        }
    }

    private static void set(cublasLtMatmulDescOpaque_t product, int attribute, int value) {
        try (IntPointer p = new IntPointer(new int[] {value})) {
            set(product, attribute, p, Integer.BYTES);
        }
    }

    private void setLong(cublasLtMatmulDescOpaque_t product, int attribute, long value) {
        set(product, attribute, number.put(value), Long.BYTES);
    }

    private static void set(cublasLtMatmulDescOpaque_t product, int attribute, Pointer value, long bytes) {
        check(cublasLtMatmulDescSetAttribute(product, attribute, value, bytes), "cublasLtMatmulDescSetAttribute");
    }

    private static void check(int status, String call) {
        if (status != CUBLAS_STATUS_SUCCESS) {
            throw new GpuException(call + ": status " + status + ", " + cublasLtGetStatusString(status).getString(),
                    "free memory of the GPU, and see whether libcublas is of CUDA 13 and fits the driver");
        }
    }
}
