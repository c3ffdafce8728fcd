package dev.starling.cuda.nccl;

import static org.bytedeco.cuda.global.nccl.NCCL_UNIQUE_ID_BYTES;
import static org.bytedeco.cuda.global.nccl.ncclGetErrorString;
import static org.bytedeco.cuda.global.nccl.ncclGetUniqueId;
import static org.bytedeco.cuda.global.nccl.ncclGetVersion;
import static org.bytedeco.cuda.global.nccl.ncclSuccess;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import java.util.List;
import org.bytedeco.cuda.nccl.ncclUniqueId;

/** NVIDIA's NCCL, which sums over GPUs by the links between them, on the stream of a device's work. */
public final class Nccl implements DeviceCollectives {
    /** The first that can join and sum without making the caller wait. */
    private static final int LEAST_VERSION = 21400;

    private final Gpu gpu;
    private final Gpu.Stream stream;

    private Nccl(Gpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
    }

    /** Returns the library for a device, or {@code null} where it is not installed. */
    public static DeviceCollectives open(Gpu gpu, Gpu.Stream stream) {
        try {
            int[] version = new int[1];
            check(ncclGetVersion(version), "ncclGetVersion", "");
            return version[0] < LEAST_VERSION ? null : new Nccl(gpu, stream);
        } catch (LinkageError | TensorException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO,
                    "NCCL does not load, gradients go through the host's memory: install NCCL 2 for CUDA 13", e);
            return null;
        }
    }

    @Override
    public String device() {
        return gpu.identity();
    }

    @Override
    public byte[] identifier() {
        gpu.enter();
        try (ncclUniqueId id = new ncclUniqueId()) {
            check(ncclGetUniqueId(id), "ncclGetUniqueId", "");
            byte[] bytes = new byte[NCCL_UNIQUE_ID_BYTES];
            id.internal().get(bytes);
            return bytes;
        }
    }

    @Override
    public DeviceGroup join(byte[] identifier, int rank, int world) {
        return new NcclGroup(gpu, stream, identifier, rank, world);
    }

    static void check(int status, String call, String detail) {
        if (status != ncclSuccess) {
            throw new TensorException(TensorException.Problem.DEVICE, call, List.of(), "status " + status + ", "
                    + ncclGetErrorString(status).getString() + (detail.isEmpty() ? "" : ": " + detail),
                    "set NCCL_DEBUG=WARN to learn more, or have gradients summed through the host");
        }
    }
}
