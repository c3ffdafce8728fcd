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
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_ALLOC_FAILED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_EXECUTION_FAILED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_INITIALIZED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulAlgoGetHeuristic;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulDescSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmulPreferenceSetAttribute;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutDestroy;
import static org.bytedeco.cuda.global.cublas.cublasLtMatrixLayoutSetAttribute;
import static org.bytedeco.cuda.global.cudart.CUDA_R_16BF;
import static org.bytedeco.cuda.global.cudart.CUDA_R_16F;
import static org.bytedeco.cuda.global.cudart.CUDA_R_32F;
import static org.bytedeco.cuda.global.cudart.CUDA_R_64F;

import dev.starling.cuda.gpu.RetryBackoff;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.ToIntFunction;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cublas.cublasLtMatmulAlgo_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulDescOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulHeuristicResult_t;
import org.bytedeco.cuda.cublas.cublasLtMatmulPreferenceOpaque_t;
import org.bytedeco.cuda.cublas.cublasLtMatrixLayoutOpaque_t;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.jspecify.annotations.Nullable;

/**
 * A {@link MatrixCall} prepared for cuBLASLt: the descriptors, which the library reads during a call, and an algorithm.
 * Not safe for use by several threads.
 */
final class MatrixPlan {
    private final MatrixCall call;
    private final cublasLtMatmulDescOpaque_t product;
    private final cublasLtMatrixLayoutOpaque_t left;
    private final cublasLtMatrixLayoutOpaque_t right;
    private final cublasLtMatrixLayoutOpaque_t result;
    /** Memory of {@code heuristic}, kept reachable. */
    private final MemorySegment memory;
    private final cublasLtMatmulHeuristicResult_t heuristic;
    private final MemorySegment number = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);
    private final RawPointer numberPointer = RawPointer.of(number);
    private final RetryBackoff backoff = new RetryBackoff();
    /** A part of {@code heuristic}; {@code null} if the library has none, or before the search. */
    private @Nullable cublasLtMatmulAlgo_t algorithm;
    private boolean settled;
    private boolean nanSafe;

    /** Makes the descriptors, without an algorithm: {@link #search} looks for one. */
    MatrixPlan(MatrixCall call, boolean tf32) {
        this.call = call;
        product = product(call, tf32);
        int type = type(call.type());
        MatrixCall.Operand l = call.left();
        MatrixCall.Operand r = call.right();
        left = l.transposed() ? layout(type, call.k(), call.m(), l.leading(), l.batch())
                : layout(type, call.m(), call.k(), l.leading(), l.batch());
        right = r.transposed() ? layout(type, call.n(), call.k(), r.leading(), r.batch())
                : layout(type, call.k(), call.n(), r.leading(), r.batch());
        result = layout(type, call.m(), call.n(), call.m(), call.resultBatch());
        memory = Arena.ofAuto().allocate(new cublasLtMatmulHeuristicResult_t(new RawPointer()).sizeof(), Long.BYTES);
        heuristic = new cublasLtMatmulHeuristicResult_t(RawPointer.of(memory));
    }

    cublasLtMatmulDescOpaque_t product() {
        return product;
    }

    cublasLtMatrixLayoutOpaque_t left() {
        return left;
    }

    cublasLtMatrixLayoutOpaque_t right() {
        return right;
    }

    cublasLtMatrixLayoutOpaque_t result() {
        return result;
    }

    /** Returns the algorithm, or {@code null} if there is none. */
    @Nullable cublasLtMatmulAlgo_t algorithm() {
        return algorithm;
    }

    /** Returns whether this call should ask the library for an algorithm. */
    boolean needsSearch() {
        return !settled && backoff.isDue();
    }

    /** Returns whether a test has shown that the algorithm passes NaN on. */
    boolean passesNan() {
        return nanSafe;
    }

    /** Records that the algorithm passes NaN on. */
    void markNanSafe() {
        nanSafe = true;
    }

    /** Stops the use of the library for this call until a later search. */
    void postpone() {
        settled = false;
        algorithm = null;
        nanSafe = false;
        backoff.onFailure();
    }

    /** Stops the use of the library for this call permanently. */
    void disable() {
        settled = true;
        algorithm = null;
    }

    /** Sets the addresses of bias and side matrix, 0 for none. */
    void setPointers(long bias, long side) {
        if (bias != 0) {
            setLong(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        }
        if (side != 0) {
            setLong(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, side);
        }
    }

    private void setLong(int attribute, long value) {
        number.set(ValueLayout.JAVA_LONG, 0, value);
        CublasLt.check(cublasLtMatmulDescSetAttribute(product, attribute, numberPointer, Long.BYTES),
                "cublasLtMatmulDescSetAttribute");
    }

    /**
     * Asks the library for an algorithm and returns the status. The candidates depend on the alignment of the operands.
     * After a transient failure the caller repeats the search or {@linkplain #postpone postpones} it.
     */
    int search(cublasLtContext handle, long workspaceBytes) {
        int[] found = new int[1];
        cublasLtMatmulPreferenceOpaque_t preference = preference(workspaceBytes);
        int status = cublasLtMatmulAlgoGetHeuristic(handle, product, left, right, result, result, preference, 1,
                heuristic, found);
        cublasLtMatmulPreferenceDestroy(preference);
        if (status == CUBLAS_STATUS_SUCCESS) {
            status = found[0] == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : heuristic.state();
        }
        if (!isTransient(status)) {
            settled = true;
            algorithm = status == CUBLAS_STATUS_SUCCESS ? heuristic.algo() : null;
        }
        return status;
    }

    /**
     * Returns whether a later attempt may succeed after this status. Where the library finds no memory for a kernel, it
     * reports any of these.
     */
    static boolean isTransient(int status) {
        return status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ALLOC_FAILED
                || status == CUBLAS_STATUS_INTERNAL_ERROR || status == CUBLAS_STATUS_EXECUTION_FAILED;
    }

    /** Destroys the descriptors; work queued with them is not affected. */
    void destroy() {
        cublasLtMatmulDescDestroy(product);
        cublasLtMatrixLayoutDestroy(left);
        cublasLtMatrixLayoutDestroy(right);
        cublasLtMatrixLayoutDestroy(result);
    }

    private static cublasLtMatmulDescOpaque_t product(MatrixCall call, boolean tf32) {
        int compute = switch (call.type()) {
            case F64 -> CUBLAS_COMPUTE_64F;
            case F32 -> tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
            default -> CUBLAS_COMPUTE_32F;
        };
        int scale = call.type() == DType.F64 ? CUDA_R_64F : CUDA_R_32F;
        cublasLtMatmulDescOpaque_t product = new cublasLtMatmulDescOpaque_t(create(
                p -> cublasLtMatmulDescCreate(p, compute, scale), "cublasLtMatmulDescCreate"));
        set(product, CUBLASLT_MATMUL_DESC_TRANSA, Integer.BYTES, call.left().transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(product, CUBLASLT_MATMUL_DESC_TRANSB, Integer.BYTES, call.right().transposed() ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, Integer.BYTES, epilogue(call));
        if (call.hasSide()) {
            set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, Long.BYTES, call.sideLeading());
            set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, Long.BYTES,
                    call.batches() > 1 ? call.resultBatch() : 0);
        }
        return product;
    }

    /** Returns the object that a function creates and whose address it writes to its argument. */
    private static RawPointer create(ToIntFunction<PointerPointer<Pointer>> function, String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(ValueLayout.JAVA_LONG);
            CublasLt.check(function.applyAsInt(new PointerPointer<>(RawPointer.of(address))), name);
            return RawPointer.of(address.get(ValueLayout.JAVA_LONG, 0));
        }
    }

    /** Returns the library's number of the call's epilogue. */
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
            default -> throw new IllegalArgumentException("cuBLASLt has no matrices of " + type);
        };
    }

    private static void set(cublasLtMatmulDescOpaque_t product, int attribute, int bytes, long value) {
        with(value, p -> cublasLtMatmulDescSetAttribute(product, attribute, p, bytes),
                "cublasLtMatmulDescSetAttribute");
    }

    /**
     * Calls a function with a pointer to a number. Functions of narrower types read its low bytes, which come first.
     */
    private static void with(long value, ToIntFunction<Pointer> function, String name) {
        try (Arena arena = Arena.ofConfined()) {
            CublasLt.check(function.applyAsInt(RawPointer.of(arena.allocateFrom(ValueLayout.JAVA_LONG, value))), name);
        }
    }

    private cublasLtMatrixLayoutOpaque_t layout(int type, long rows, long columns, long leading, long distance) {
        cublasLtMatrixLayoutOpaque_t layout = new cublasLtMatrixLayoutOpaque_t(create(
                p -> cublasLtMatrixLayoutCreate(p, type, rows, columns, leading), "cublasLtMatrixLayoutCreate"));
        if (call.batches() > 1) {
            set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Integer.BYTES, call.batches());
            set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Long.BYTES, distance);
        }
        return layout;
    }

    private static void set(cublasLtMatrixLayoutOpaque_t layout, int attribute, int bytes, long value) {
        with(value, p -> cublasLtMatrixLayoutSetAttribute(layout, attribute, p, bytes),
                "cublasLtMatrixLayoutSetAttribute");
    }

    private cublasLtMatmulPreferenceOpaque_t preference(long workspaceBytes) {
        cublasLtMatmulPreferenceOpaque_t preference = new cublasLtMatmulPreferenceOpaque_t(create(
                p -> cublasLtMatmulPreferenceCreate(p), "cublasLtMatmulPreferenceCreate"));
        set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Long.BYTES, workspaceBytes);
        set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Integer.BYTES,
                call.type().bytes() == Short.BYTES ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                        : CUBLASLT_REDUCTION_SCHEME_MASK);
        for (int attribute : new int[] {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
            set(preference, attribute, Integer.BYTES, call.alignment());
        }
        return preference;
    }

    private static void set(cublasLtMatmulPreferenceOpaque_t preference, int attribute, int bytes, long value) {
        with(value, p -> cublasLtMatmulPreferenceSetAttribute(preference, attribute, p, bytes),
                "cublasLtMatmulPreferenceSetAttribute");
    }
}
