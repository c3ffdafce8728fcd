package dev.starling.cuda.nccl;

import static org.bytedeco.cuda.global.nccl.NCCL_UNIQUE_ID_BYTES;
import static org.bytedeco.cuda.global.nccl.ncclGetErrorString;
import static org.bytedeco.cuda.global.nccl.ncclGetUniqueId;
import static org.bytedeco.cuda.global.nccl.ncclGetVersion;
import static org.bytedeco.cuda.global.nccl.ncclSuccess;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import java.lang.foreign.Arena;
import java.util.List;
import org.bytedeco.cuda.nccl.ncclUniqueId;
import org.jspecify.annotations.Nullable;

/** NVIDIA's NCCL, which sums over GPUs through their links, on a stream of its own beside a device's kernels. */
public final class Nccl implements DeviceCollectives {
    /** The first version with nonblocking initialisation and sums. */
    private static final int MIN_VERSION = 21400;

    private final Gpu gpu;
    private final Gpu.Stream compute;
    private final Submissions submissions;
    /** The stream of sums, created at the first {@link #join}. */
    private Gpu.@Nullable Stream sums;

    private Nccl(Gpu gpu, Gpu.Stream compute, Submissions submissions) {
        this.gpu = gpu;
        this.compute = compute;
        this.submissions = submissions;
    }

    /**
     * Returns the library for a device, or {@code null} if it is missing or too old.
     *
     * @param compute the stream of the kernels
     * @param submissions the entry to the device
     */
    public static @Nullable DeviceCollectives open(Gpu gpu, Gpu.Stream compute, Submissions submissions) {
        System.Logger log = System.getLogger("dev.starling.cuda");
        try {
            int version = version();
            if (version < MIN_VERSION) {
                log.log(System.Logger.Level.WARNING, "NCCL {0} is too old, gradients pass through host memory: "
                        + "{1}", Redist.version(version), Redist.remedy("NCCL 2.14 or newer", "-nccl"));
                return null;
            }
            return new Nccl(gpu, compute, submissions);
        } catch (LinkageError | TensorException e) {
            log.log(System.Logger.Level.INFO, "NCCL cannot be loaded, gradients pass through host memory: "
                    + Redist.remedy("NCCL 2 for CUDA 13", "-nccl"), e);
            return null;
        }
    }

    private static int version() {
        int[] version = new int[1];
        check(ncclGetVersion(version), "ncclGetVersion", "");
        return version[0];
    }

    /** Returns the library's version, for example 2.28.9; throws a {@link LinkageError} if the library is missing. */
    public static String versionText() {
        return Redist.version(version());
    }

    /** Returns whether the installed version is supported; throws a {@link LinkageError} if the library is missing. */
    public static boolean isNewEnough() {
        return version() >= MIN_VERSION;
    }

    @Override
    public String device() {
        return gpu.identity();
    }

    @Override
    public byte[] identifier() {
        try (Arena arena = Arena.ofConfined()) {
            ncclUniqueId id = identifier(arena);
            gpu.enter();
            check(ncclGetUniqueId(id), "ncclGetUniqueId", "");
            byte[] bytes = new byte[NCCL_UNIQUE_ID_BYTES];
            id.internal().get(bytes);
            return bytes;
        }
    }

    /** Returns memory for an identifier, outside JavaCPP's accounting. */
    static ncclUniqueId identifier(Arena arena) {
        return new ncclUniqueId(RawPointer.of(arena.allocate(NCCL_UNIQUE_ID_BYTES)));
    }

    @Override
    public synchronized DeviceGroup join(byte[] identifier, int rank, int world) {
        if (sums == null) {
            sums = gpu.stream();
        }
        return new NcclGroup(gpu, compute, submissions, sums, identifier, rank, world);
    }

    static void check(int status, String call, String detail) {
        if (status != ncclSuccess) {
            throw new TensorException(TensorException.Problem.DEVICE, call, List.of(), "status " + status + ", "
                    + ncclGetErrorString(status).getString() + (detail.isEmpty() ? "" : ": " + detail),
                    "set NCCL_DEBUG=WARN for details, or sum gradients through the host");
        }
    }
}
