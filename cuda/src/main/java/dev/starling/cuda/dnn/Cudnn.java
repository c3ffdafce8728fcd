package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.cudnnAdvVersionCheck;
import static org.bytedeco.cuda.global.cudnn.cudnnCnnVersionCheck;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnGetCudartVersion;
import static org.bytedeco.cuda.global.cudnn.cudnnGetVersion;
import static org.bytedeco.cuda.global.cudnn.cudnnGraphVersionCheck;
import static org.bytedeco.cuda.global.cudnn.cudnnOpsVersionCheck;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.gpu.RetryBackoff;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.TensorException;
import java.lang.System.Logger.Level;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntSupplier;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.jspecify.annotations.Nullable;

/**
 * NVIDIA's cuDNN 9 for the work of one stream, opened at its first use, with one handle. Callers of the library hold
 * the monitor of this object.
 */
public final class Cudnn {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int CUDA = 13;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Workspaces memory;
    private final Set<LibraryFault> logged = ConcurrentHashMap.newKeySet();
    /** {@code null} before the first attempt to open the library. */
    private volatile @Nullable Boolean open;
    private final RetryBackoff attempts = new RetryBackoff();
    /** Set when the library is opened. */
    @SuppressWarnings("NullAway.Init")
    private cudnnContext handle;
    private volatile long version;

    /** The libraries that cuDNN consists of, those that Starling calls. */
    private enum Component {
        GRAPH(() -> cudnnGraphVersionCheck()), OPS(() -> cudnnOpsVersionCheck()), CNN(() -> cudnnCnnVersionCheck()),
        ADV(() -> cudnnAdvVersionCheck());

        /** Returns a status: whether the library is there, and of the version of the others. */
        private final IntSupplier check;

        Component(IntSupplier check) {
            this.check = check;
        }
    }

    /**
     * Makes a wrapper for a stream, without opening the library.
     *
     * @param memory workspaces of the engines
     */
    public Cudnn(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
    }

    /**
     * Opens the library at the first call, and returns whether it is open.
     *
     * @param fallback what happens without the library and what it costs, for the log
     */
    public boolean isOpen(String fallback) {
        Boolean known = open;
        return known != null ? known : open(fallback);
    }

    private synchronized boolean open(String fallback) {
        if (open != null) {
            return open;
        }
        if (!attempts.isDue()) {
            return false;
        }
        String remedy = Redist.remedy("cuDNN 9.10.2 or newer for CUDA 13", "-cudnn");
        boolean opened = false;
        try {
            if (cudaVersion() / 1000 == CUDA) {
                String fault = fault();
                if (!fault.isEmpty()) {
                    LOG.log(Level.WARNING, "cuDNN {0}: {1}; {2}", versionText(), fault, remedy);
                }
                gpu.enter();
                cudnnContext created = new cudnnContext();
                Descriptor.check(cudnnCreate(created), "cudnnCreate");
                Descriptor.check(cudnnSetStream(created, NvidiaGpu.handle(stream)), "cudnnSetStream");
                version = cudnnGetVersion();
                handle = created;
                opened = true;
            } else {
                LOG.log(Level.WARNING, "cuDNN {0} is {1}: {2}; {3}", versionText(), fault(), fallback, remedy);
            }
        } catch (LinkageError e) {
            LOG.log(Level.WARNING, "cuDNN cannot be loaded, " + fallback + ": " + remedy, e);
        } catch (GpuException e) {
            // It allocates memory of its own, which Starling's cache may hold.
            LOG.log(Level.WARNING, "cuDNN cannot be opened now, " + fallback + "; later calls try again", e);
            memory.trim();
            attempts.onFailure();
            return false;
        }
        open = opened;
        return opened;
    }

    Gpu gpu() {
        return gpu;
    }

    Gpu.Stream stream() {
        return stream;
    }

    Workspaces memory() {
        return memory;
    }

    /** Returns the handle of the library, which must be open. */
    cudnnContext handle() {
        return handle;
    }

    /** Returns the library's version in its own numbering; the library must be open. */
    long version() {
        return version;
    }

    /**
     * Makes a call and, if it may have found no memory, frees cached memory and makes it once more: the library loads a
     * kernel into the device's memory when it first uses it.
     *
     * @param call may allocate workspaces; returns a status
     * @return the status, also if there was no memory for a workspace
     */
    int attempt(IntSupplier call) {
        int status = status(call);
        if (CudnnException.isTransient(status) && !memory.isCapturing()) {
            memory.trim();
            status = status(call);
        }
        return status;
    }

    private static int status(IntSupplier call) {
        try {
            return call.getAsInt();
        } catch (TensorException e) {
            if (e.problem() != TensorException.Problem.MEMORY) {
                throw e;
            }
            return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
        }
    }

    /** Returns whether a known fault affects a query. The first query with each fault is logged at level INFO. */
    boolean isFaulty(LibraryQuery query, String fallback) {
        LibraryFault fault = LibraryFaults.find(LibraryFault.Remedy.DECLINE, LibraryFault.Library.CUDNN, version,
                query);
        if (fault != null && logged.add(fault)) {
            LOG.log(Level.INFO, "cuDNN {0} is not used for {1}, {2}: {3} ({4})", Redist.version(version), query,
                    fallback, fault.symptom(), fault.source());
        }
        return fault != null;
    }

    /** Returns the library's version, for example 9.19.0; throws a {@link LinkageError} if the library is missing. */
    public static String versionText() {
        return Redist.version(cudnnGetVersion());
    }

    /** Describes what is wrong with the library, or returns ""; throws a {@link LinkageError} if it is missing. */
    public static String fault() {
        long cuda = cudaVersion();
        if (cuda / 1000 != CUDA) {
            return "built for CUDA " + cuda / 1000 + ", which does not work with CUDA 13's libraries: "
                    + "convolutions, attention and recurrent layers are slow without a cuDNN for CUDA 13";
        }
        for (Component component : Component.values()) {
            int status = component.check.getAsInt();
            if (status != CUDNN_STATUS_SUCCESS) {
                return "its library libcudnn_" + component.name().toLowerCase(Locale.ROOT)
                        + " is of another version or cannot be loaded (status " + status + ")";
            }
        }
        return cudnnGetVersion() < LibraryFaults.FIRST_ATTENTION ? "too old for attention, which is slow without it"
                : "";
    }

    private static long cudaVersion() {
        return cudnnGetCudartVersion();
    }
}
