package dev.starling.cuda.blas;

import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_INVALID_VALUE;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_NOT_SUPPORTED;
import static org.bytedeco.cuda.global.cublas.CUBLAS_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cublas.cublasLtCreate;
import static org.bytedeco.cuda.global.cublas.cublasLtGetStatusString;
import static org.bytedeco.cuda.global.cublas.cublasLtGetVersion;
import static org.bytedeco.cuda.global.cublas.cublasLtMatmul;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.known.Asked;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.cuda.memory.LastUsed;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Set;
import org.bytedeco.cuda.cublas.cublasLtContext;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.Pointer;

/**
 * NVIDIA's cuBLASLt. It is opened when it is first asked. The algorithm for a call is asked for once and kept, unless
 * it was used longest ago of many. f32 is multiplied in full precision unless the property {@code starling.cuda.tf32}
 * is true; 16-bit types sum in f32, also the parts of divided sums. All calls share one workspace, which stays where it
 * is: they run one after the other. Epilogues that the property {@code starling.cuda.epilogues.omitted} lists are left
 * to kernels behind the product.
 *
 * <p>Nobody says whether the library's ReLU lets NaN pass, as ours does, or hides it as 0. So an algorithm with ReLU is
 * tried with sums that are NaN before its first use, and not taken if it hides them.
 */
public final class CublasLt implements Blas {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    /** What NVIDIA recommends for compute capability 9.0. */
    private static final long WORKSPACE_BYTES = 32L << 20;
    private static final int MAX_PLANS = 4096;
    private static final String OMITTED = "starling.cuda.epilogues.omitted";

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final CUstream_st queue;
    private final Workspaces memory;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final Set<MatrixCall.After> omitted = MatrixCall.After.parse(OMITTED,
            System.getProperty(OMITTED, ""));
    private final cublasLtContext handle = new cublasLtContext();
    private final RawPointer workspace = new RawPointer();
    private final LastUsed<MatrixCall, MatrixPlan> plans;
    private final Pointer[] zero = factor(0);
    private final Pointer[] one = factor(1);
    private final Pointer[] nan = factor(Float.NaN);
    /** Where the host reads an element of a result. */
    private final MemorySegment element = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);
    private final RawPointer a = new RawPointer();
    private final RawPointer b = new RawPointer();
    private final RawPointer y = new RawPointer();
    /** {@code null} if it was not asked for yet. */
    private volatile Boolean open;
    private long version;
    private boolean toldPlain;
    private boolean toldFused;

    /**
     * Makes it for the work of a stream, without opening the library.
     *
     * @param memory tells when a graph is being made
     */
    public CublasLt(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        this(gpu, stream, memory, MAX_PLANS);
    }

    /** Makes it, for so many algorithms. */
    CublasLt(Gpu gpu, Gpu.Stream stream, Workspaces memory, int mostPlans) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
        queue = NvidiaGpu.handle(stream);
        plans = new LastUsed<>(mostPlans, plan -> true);
    }

    /** Opens the library if it has not been tried before, and tells whether it is open. */
    public boolean isOpen() {
        if (open == null) {
            open();
        }
        return open;
    }

    private synchronized void open() {
        if (open != null) {
            return;
        }
        boolean opened = false;
        try {
            gpu.enter();
            check(cublasLtCreate(handle), "cublasLtCreate");
            version = cublasLtGetVersion();
            workspace.to(gpu.allocate(WORKSPACE_BYTES));
            opened = true;
        } catch (LinkageError | GpuException e) {
            LOG.log(Level.WARNING, "cuBLASLt does not load, products of matrices will be slow: "
                    + Redist.remedy("CUDA 13's libcublas", "-cublas"), e);
        }
        open = opened;
    }

    /** Returns a number as the library reads it for products of f32 and shorter, and for those of f64. */
    private static Pointer[] factor(float value) {
        return new Pointer[] {RawPointer.of(Arena.global().allocateFrom(ValueLayout.JAVA_FLOAT, value)),
            RawPointer.of(Arena.global().allocateFrom(ValueLayout.JAVA_DOUBLE, value))};
    }

    /** Returns the version of the library, for example 13.1.1; throws a {@link LinkageError} where there is none. */
    public static String versionInWords() {
        long version = cublasLtGetVersion();
        return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
    }

    @Override
    public boolean takes(DType type) {
        return type.isFloating() && isOpen();
    }

    @Override
    public synchronized boolean multiply(MatrixCall call, long aAddress, long bAddress, long biasAddress,
            long sideAddress, long yAddress) {
        gpu.enter();
        MatrixPlan plan = plans.get(call);
        if (plan == null) {
            plan = new MatrixPlan(call, tf32);
            if (!isAsked(call)) {
                plan.dismiss();
            }
            plans.put(call, plan);
            plans.overdue().forEach(MatrixPlan::destroy);
        }
        plan.point(biasAddress, sideAddress);
        if (plan.isOpen()) {
            int status = plan.ask(handle, workspaceBytes());
            if (status != CUBLAS_STATUS_SUCCESS) {
                tell(call, status);
            }
        }
        if (plan.algorithm() == null) {
            return false;
        }
        a.to(aAddress);
        b.to(bAddress);
        y.to(yAddress);
        // What the host has to wait for cannot be part of a graph.
        if (call.after() == MatrixCall.After.RELU && !plan.isTried() && (memory.isKeeping() || hidesNan(call, plan))) {
            return false;
        }
        int status = run(call, plan, one);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
            LOG.log(Level.WARNING, "cuBLASLt refuses what it offered, {0}: a kernel of our own computes {1} from now "
                    + "on", words(status), call);
            plan.dismiss();
            return false;
        }
        check(status, "cublasLtMatmul");
        return true;
    }

    /** Tells whether an algorithm may be asked for. */
    private boolean isAsked(MatrixCall call) {
        LibraryFault fault = LibraryFaults.find(LibraryFault.Remedy.DECLINE, LibraryFault.Library.CUBLASLT, version,
                new Asked.Product(call.type(), call.span()));
        if (fault != null) {
            LOG.log(Level.INFO, "cuBLASLt {0} is not asked for {1}: {2} ({3})", versionInWords(), call, fault.symptom(),
                    fault.source());
        }
        return fault == null && !omitted.contains(call.after());
    }

    private int run(MatrixCall call, MatrixPlan plan, Pointer[] factor) {
        // A log handler may have let this virtual thread go on with another carrier, whose context is another one.
        gpu.enter();
        int wide = call.type() == DType.F64 ? 1 : 0;
        return cublasLtMatmul(handle, plan.product(), factor[wide], b, plan.left(), a, plan.right(), zero[wide], y,
                plan.result(), y, plan.result(), plan.algorithm(), workspace, workspaceBytes(), queue);
    }

    /** Returns whether ReLU makes NaN 0, and sees to it that the algorithm is not used then; y is undefined. */
    private boolean hidesNan(MatrixCall call, MatrixPlan plan) {
        if (run(call, plan, nan) != CUBLAS_STATUS_SUCCESS) {
            // Nor will the product itself succeed, which tells of it.
            return false;
        }
        gpu.download(y.address(), element.address(), call.type().bytes(), stream);
        if (isNan(call.type())) {
            plan.tried();
            return false;
        }
        LOG.log(Level.DEBUG, "cuBLASLt''s ReLU makes NaN 0 in {0}: a kernel behind it computes ReLU", call);
        plan.dismiss();
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

    private long workspaceBytes() {
        return workspace.isNull() ? 0 : WORKSPACE_BYTES;
    }

    private void tell(MatrixCall call, int status) {
        boolean plain = call.after() == MatrixCall.After.NOTHING && !call.bias();
        boolean told = plain ? toldPlain : toldFused;
        LOG.log(told ? Level.DEBUG : plain ? Level.WARNING : Level.INFO,
                "cuBLASLt has no algorithm for {0} ({1}): {2}{3}{4}", call, words(status),
                plain ? "a kernel of our own multiplies, which is slower"
                        : "what belongs to the product is done by a kernel behind it",
                MatrixPlan.mayPass(status) ? ", until there is one" : "",
                told ? "" : ". Others like it are told at level DEBUG");
        toldPlain |= plain;
        toldFused |= !plain;
    }

    private static String words(int status) {
        return "status " + status + ", " + cublasLtGetStatusString(status).getString();
    }

    static void check(int status, String call) {
        if (status != CUBLAS_STATUS_SUCCESS) {
            throw new GpuException(call + ": " + words(status),
                    "free memory of the GPU, and see whether libcublas is of CUDA 13 and fits the driver");
        }
    }
}
