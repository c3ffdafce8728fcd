package dev.starling.cuda.dnn;

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
import dev.starling.cuda.known.Asked;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.cuda.memory.Workspaces;
import java.lang.System.Logger.Level;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntSupplier;
import org.bytedeco.cuda.cudnn.cudnnContext;

/**
 * NVIDIA's cuDNN 9 for the work of one stream. It is opened when it is first asked for, and has one handle: who calls
 * the library holds the monitor of this object.
 */
public final class Cudnn {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int CUDA = 13;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Workspaces memory;
    private final Set<LibraryFault> told = ConcurrentHashMap.newKeySet();
    /** {@code null} if it was not asked for yet. */
    private volatile Boolean open;
    private cudnnContext handle;
    private volatile long version;

    /** The libraries of which cuDNN consists, as far as we call them. */
    private enum Part {
        GRAPH, OPS, CNN, ADV
    }

    /**
     * Makes it for a stream, without opening the library.
     *
     * @param memory what engines work in
     */
    public Cudnn(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
    }

    /**
     * Opens the library if it has not been tried before, and tells whether it is open.
     *
     * @param instead who computes what the library does not, and at what price
     */
    public boolean isOpen(String instead) {
        if (open == null) {
            open(instead);
        }
        return open;
    }

    private synchronized void open(String instead) {
        if (open != null) {
            return;
        }
        String remedy = Redist.remedy("cuDNN 9.10.2 or newer for CUDA 13", "-cudnn");
        boolean opened = false;
        try {
            if (cudaVersion() / 1000 == CUDA) {
                String fault = fault();
                if (!fault.isEmpty()) {
                    LOG.log(Level.WARNING, "cuDNN {0}: {1}; {2}", versionInWords(), fault, remedy);
                }
                gpu.enter();
                cudnnContext made = new cudnnContext();
                Descriptor.check(cudnnCreate(made), "cudnnCreate");
                Descriptor.check(cudnnSetStream(made, NvidiaGpu.handle(stream)), "cudnnSetStream");
                version = cudnnGetVersion();
                handle = made;
                opened = true;
            } else {
                LOG.log(Level.WARNING, "cuDNN {0} is {1}: {2}; {3}", versionInWords(), fault(), instead, remedy);
            }
        } catch (LinkageError | GpuException e) {
            LOG.log(Level.WARNING, "cuDNN does not load, " + instead + ": " + remedy, e);
        }
        open = opened;
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

    /** Returns the library's number for its version; the library must be open. */
    long version() {
        return version;
    }

    /** Tells whether the library is known to fail at a call; the first call with each fault is logged at level INFO. */
    boolean isFaulty(Asked asked, String instead) {
        LibraryFault fault = LibraryFaults.find(LibraryFault.Remedy.DECLINE, LibraryFault.Library.CUDNN, version,
                asked);
        if (fault != null && told.add(fault)) {
            LOG.log(Level.INFO, "cuDNN {0} is not asked for {1}, {2}: {3} ({4})", words(version), asked, instead,
                    fault.symptom(), fault.source());
        }
        return fault != null;
    }

    /** Returns the version of the library, for example 9.19.0; throws a {@link LinkageError} where there is none. */
    public static String versionInWords() {
        return words(cudnnGetVersion());
    }

    /** Says what is wrong with the library, or nothing; throws a {@link LinkageError} where there is none. */
    public static String fault() {
        return fault(cudnnGetVersion(), cudaVersion(), parts());
    }

    private static long cudaVersion() {
        return cudnnGetCudartVersion();
    }

    private static Map<Part, Integer> parts() {
        Map<Part, IntSupplier> checks = new EnumMap<>(Map.of(Part.GRAPH, () -> cudnnGraphVersionCheck(), Part.OPS,
                () -> cudnnOpsVersionCheck(), Part.CNN, () -> cudnnCnnVersionCheck(), Part.ADV,
                () -> cudnnAdvVersionCheck()));
        Map<Part, Integer> statuses = new EnumMap<>(Part.class);
        checks.forEach((part, check) -> statuses.put(part, check.getAsInt()));
        return statuses;
    }

    private static String fault(long version, long cuda, Map<Part, Integer> statuses) {
        if (cuda / 1000 != CUDA) {
            return "built for CUDA " + cuda / 1000 + ", which does not go together with CUDA 13's libraries: "
                    + "convolutions, attention and recurrent layers are slow without one for CUDA 13";
        }
        for (Map.Entry<Part, Integer> part : statuses.entrySet()) {
            if (part.getValue() != CUDNN_STATUS_SUCCESS) {
                return "its part libcudnn_" + part.getKey().name().toLowerCase(Locale.ROOT)
                        + " is of another version, or does not load (status " + part.getValue() + ")";
            }
        }
        return version < LibraryFaults.FIRST_ATTENTION ? "too old for attention, which is slow without" : "";
    }

    static String words(long version) {
        return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
    }
}
