package dev.starling.cuda.blas;

import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_INVALID_VALUE;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cublas.cublasLtCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtGetStatusString;
import static org.bytedeco.cuda.global.cublas.cublasLtGetVersion;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmul;

import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.gpu.RetryBackoff;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.cuda.memory.LruMap;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.IntSupplier;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.Pointer;
import org.jspecify.annotations.Nullable;

/**
 * NVIDIA's cuBLASLt, opened at its first use. It is asked once for the algorithm of a call; the algorithms used most
 * recently are cached. f32 is multiplied in full precision unless the configuration allows TF32. 16-bit types
 * accumulate in f32, also in the partial sums of split products. All calls share one workspace, which never moves,
 * since they run one after the other. The library declines the epilogues that the configuration omits.
 *
 * <p>NVIDIA does not document whether the library's ReLU passes NaN on, as Starling's does, or replaces it by 0.
 * Therefore an algorithm with ReLU is tested on NaN sums before its first use and rejected if it hides them.
 */
public final class CublasLt {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    /** What NVIDIA recommends for compute capability 9.0. */
    private static final long WORKSPACE_BYTES = 32L << 20;
    private static final int MAX_PLANS = 4096;
    private static final Answer NO_ALGORITHM = new Answer.Declined("cuBLASLt has no algorithm, or is not used for it");
    private static final Answer HIDES_NAN = new Answer.Declined("cuBLASLt's ReLU may replace NaN by 0");

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final CUstream_st queue;
    private final Workspaces memory;
    private final CudaConfig config;
    private final int capability;
    private final cublasLtContext handle = new cublasLtContext();
    private final RawPointer workspace = new RawPointer();
    private final LruMap<MatrixCall, MatrixPlan> plans;
    private final Pointer[] zero = factor(0);
    private final Pointer[] one = factor(1);
    private final Pointer[] nan = factor(Float.NaN);
    /** Host memory for one element of a result. */
    private final MemorySegment element = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer y = new RawPointer();
    /** {@code null} before the first attempt to open the library. */
    private volatile @Nullable Boolean open;
    private final RetryBackoff attempts = new RetryBackoff();
    private long version;
    private boolean loggedPlain;
    private boolean loggedFused;

    /**
     * Makes a wrapper for the work of a stream, without opening the library.
     *
     * @param memory reports whether a graph is being captured
     */
    public CublasLt(Gpu gpu, Gpu.Stream stream, Workspaces memory, CudaConfig config) {
        this(gpu, stream, memory, config, MAX_PLANS);
    }

    /** Makes a wrapper that caches at most {@code maxPlans} algorithms. */
    CublasLt(Gpu gpu, Gpu.Stream stream, Workspaces memory, CudaConfig config, int maxPlans) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
        this.config = config;
        capability = LibraryFaults.capability(gpu.architecture());
        queue = NvidiaGpu.handle(stream);
        plans = new LruMap<>(maxPlans, plan -> true);
    }

    /** Opens the library at the first call, and returns whether it is open. */
    public boolean isOpen() {
        Boolean known = open;
        return known != null ? known : open();
    }

    private synchronized boolean open() {
        if (open != null) {
            return open;
        }
        if (!attempts.isDue()) {
            return false;
        }
        boolean opened = false;
        try {
            version = cublasLtGetVersion();
            if (workspace.isNull()) {
                workspace.to(allocateWorkspace());
            }
            gpu.enter();
            check(cublasLtCreate(handle), "cublasLtCreate");
            opened = true;
        } catch (LinkageError e) {
            LOG.log(Level.WARNING, "cuBLASLt cannot be loaded, matrix products will be slow: "
                    + Redist.remedy("CUDA 13's libcublas", "-cublas"), e);
        } catch (GpuException e) {
            // The library also allocates memory of its own, which Starling's cache may hold.
            LOG.log(Level.WARNING, "cuBLASLt cannot be opened now, matrix products are slow; later calls try again", e);
            memory.trim();
            attempts.onFailure();
            return false;
        }
        open = opened;
        return opened;
    }

    private long allocateWorkspace() {
        long address = gpu.allocate(WORKSPACE_BYTES);
        if (address == 0) {
            memory.trim();
            address = gpu.allocate(WORKSPACE_BYTES);
        }
        if (address == 0) {
            throw GpuException.exhausted("no " + WORKSPACE_BYTES + " bytes for cuBLASLt's workspace");
        }
        return address;
    }

    /**
     * Returns a scaling factor as the library reads it: for products of f32 and narrower types, and for those of f64.
     */
    private static Pointer[] factor(float value) {
        return new Pointer[] {RawPointer.of(Arena.global().allocateFrom(ValueLayout.JAVA_FLOAT, value)),
            RawPointer.of(Arena.global().allocateFrom(ValueLayout.JAVA_DOUBLE, value))};
    }

    /** Returns the library's version, for example 13.1.1; throws a {@link LinkageError} if the library is missing. */
    public static String versionText() {
        return Redist.version(cublasLtGetVersion());
    }

    /** Returns whether the library multiplies matrices of a type. */
    public boolean supports(DType type) {
        return type.isFloating() && isOpen();
    }

    /**
     * Queues a product, or declines it if the library cannot compute it.
     *
     * @param call sizes, layouts, type and epilogue of the product
     * @param aAddress address of the product's left operand
     * @param bAddress address of the right operand
     * @param biasAddress address of the bias, or of the result of column sums; 0 if the call has neither
     * @param sideAddress address of the side matrix, or 0 if the call has none
     * @param yAddress address of the result
     */
    synchronized Answer multiply(MatrixCall call, long aAddress, long bAddress, long biasAddress, long sideAddress,
            long yAddress) {
        MatrixPlan plan = plan(call);
        plan.setPointers(biasAddress, sideAddress);
        if (plan.needsSearch()) {
            int found = attempt(() -> plan.search(handle, WORKSPACE_BYTES));
            if (found != CUBLAS_STATUS_SUCCESS) {
                onFailure(call, plan, found);
            }
        }
        if (plan.algorithm() == null) {
            return NO_ALGORITHM;
        }
        a.to(aAddress);
        b.to(bAddress);
        y.to(yAddress);
        // The check waits for the GPU, which is not allowed during a capture.
        if (call.after() == ProductEpilogue.RELU && !plan.passesNan()
                && (memory.isCapturing() || hidesNan(call, plan))) {
            return HIDES_NAN;
        }
        int status = attempt(() -> run(call, plan, one));
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
            LOG.log(Level.WARNING, "cuBLASLt rejects its own algorithm for {0} ({1}): Starling''s kernel computes "
                    + "this product from now on", call, describe(status));
            plan.disable();
            return NO_ALGORITHM;
        }
        if (MatrixPlan.isTransient(status) && !memory.isCapturing()) {
            onFailure(call, plan, status);
            return NO_ALGORITHM;
        }
        check(status, "cublasLtMatmul");
        return Answer.HANDLED;
    }

    private MatrixPlan plan(MatrixCall call) {
        MatrixPlan plan = plans.get(call);
        if (plan == null) {
            plan = new MatrixPlan(call, config.tf32());
            if (!isAllowed(call)) {
                plan.disable();
            }
            plans.put(call, plan);
            plans.evict().forEach(MatrixPlan::destroy);
        }
        return plan;
    }

    /**
     * Makes a request and, if it may have found no memory, frees cached memory and makes it once more: the library
     * loads a kernel into the device's memory when it first uses it.
     */
    private int attempt(IntSupplier request) {
        // A log handler may have blocked; this virtual thread may now run on a carrier with another context.
        gpu.enter();
        int status = request.getAsInt();
        if (MatrixPlan.isTransient(status) && !memory.isCapturing()) {
            memory.trim();
            gpu.enter();
            status = request.getAsInt();
        }
        return status;
    }

    /** Returns whether a call may use the library: no known fault affects it and its epilogue is not omitted. */
    private boolean isAllowed(MatrixCall call) {
        LibraryFault fault = LibraryFaults.find(LibraryFault.Remedy.DECLINE, LibraryFault.Library.CUBLASLT, version,
                new LibraryQuery.Product(call.type(), call.span(), call.isInterleaved(), capability));
        if (fault != null) {
            LOG.log(Level.INFO, "cuBLASLt {0} is not used for {1}: {2} ({3})", versionText(), call, fault.symptom(),
                    fault.source());
        }
        return fault == null && !config.omittedEpilogues().contains(call.after());
    }

    private int run(MatrixCall call, MatrixPlan plan, Pointer[] factor) {
        int wide = call.type() == DType.F64 ? 1 : 0;
        return cublasLtMatmul(handle, plan.product(), factor[wide], b, plan.left(), a, plan.right(), zero[wide], y,
                plan.result(), y, plan.result(), plan.algorithm(), workspace, WORKSPACE_BYTES, queue);
    }

    /**
     * Returns whether the algorithm's ReLU replaces NaN by 0, and disables it in that case, or cannot be tested now; y
     * is undefined afterwards.
     */
    private boolean hidesNan(MatrixCall call, MatrixPlan plan) {
        int status = attempt(() -> run(call, plan, nan));
        if (status != CUBLAS_STATUS_SUCCESS) {
            // After other failures, the real product will fail as well and report the error.
            boolean untested = MatrixPlan.isTransient(status);
            if (untested) {
                onFailure(call, plan, status);
            }
            return untested;
        }
        gpu.download(y.address(), element.address(), call.type().bytes(), stream);
        gpu.synchronize(stream);
        if (isNan(call.type())) {
            plan.markNanSafe();
            return false;
        }
        LOG.log(Level.DEBUG, "cuBLASLt''s ReLU replaces NaN by 0 in {0}: a kernel after it computes ReLU", call);
        plan.disable();
        return true;
    }

    private boolean isNan(DType type) {
        return switch (type) {
            case F64 -> Double.isNaN(element.get(ValueLayout.JAVA_DOUBLE, 0));
            case F32 -> Float.isNaN(element.get(ValueLayout.JAVA_FLOAT, 0));
            case BF16 -> Float.isNaN(Float.intBitsToFloat(element.get(ValueLayout.JAVA_SHORT, 0) << Short.SIZE));
            default -> Float.isNaN(Float.float16ToFloat(element.get(ValueLayout.JAVA_SHORT, 0)));
        };
    }

    /** Logs a failure of the library. After one that may pass, a later call asks the library again. */
    private void onFailure(MatrixCall call, MatrixPlan plan, int status) {
        if (MatrixPlan.isTransient(status)) {
            plan.postpone();
        }
        boolean plain = call.after() == ProductEpilogue.NOTHING && !call.bias();
        boolean logged = plain ? loggedPlain : loggedFused;
        LOG.log(logged ? Level.DEBUG : plain ? Level.WARNING : Level.INFO,
                "cuBLASLt cannot compute {0} ({1}): {2}{3}{4}", call, describe(status),
                plain ? "Starling's own kernel multiplies, which is slower"
                        : "a kernel after the product computes the epilogue",
                MatrixPlan.isTransient(status) ? ", until a later attempt succeeds" : "",
                logged ? "" : ". Further cases are logged at level DEBUG");
        loggedPlain |= plain;
        loggedFused |= !plain;
    }

    private static String describe(int status) {
        return "status " + status + ", " + cublasLtGetStatusString(status).getString();
    }

    static void check(int status, String call) {
        if (status != CUBLAS_STATUS_SUCCESS) {
            throw new GpuException(call + ": " + describe(status),
                    "free memory of the GPU, and check that libcublas is of CUDA 13 and supports the driver");
        }
    }
}
