package dev.starling.cuda.nccl;

import static org.bytedeco.cuda.global.nccl.NCCL_API_MAGIC;
import static org.bytedeco.cuda.global.nccl.NCCL_VERSION_CODE;
import static org.bytedeco.cuda.global.nccl.ncclAllReduce;
import static org.bytedeco.cuda.global.nccl.ncclBfloat16;
import static org.bytedeco.cuda.global.nccl.ncclCommAbort;
import static org.bytedeco.cuda.global.nccl.ncclCommDestroy;
import static org.bytedeco.cuda.global.nccl.ncclCommFinalize;
import static org.bytedeco.cuda.global.nccl.ncclCommGetAsyncError;
import static org.bytedeco.cuda.global.nccl.ncclCommInitRankConfig;
import static org.bytedeco.cuda.global.nccl.ncclFloat16;
import static org.bytedeco.cuda.global.nccl.ncclFloat32;
import static org.bytedeco.cuda.global.nccl.ncclFloat64;
import static org.bytedeco.cuda.global.nccl.ncclGetLastError;
import static org.bytedeco.cuda.global.nccl.ncclInProgress;
import static org.bytedeco.cuda.global.nccl.ncclInt32;
import static org.bytedeco.cuda.global.nccl.ncclInt64;
import static org.bytedeco.cuda.global.nccl.ncclSuccess;
import static org.bytedeco.cuda.global.nccl.ncclSum;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.DeviceGroup;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.nccl.ncclComm;
import org.bytedeco.cuda.nccl.ncclConfig_t;
import org.bytedeco.cuda.nccl.ncclUniqueId;
import org.jspecify.annotations.Nullable;

/**
 * A communicator in NCCL's nonblocking mode: calls return immediately and NCCL's own threads finish the work, so that
 * it can be aborted at any time. Sums are on a stream of their own: a sum waits for the kernels queued before it, and
 * {@link #await} makes later kernels wait for the sums.
 */
final class NcclGroup implements DeviceGroup {
    private static final String NAME = "all-reduce";
    private static final long POLL_NS = 20_000;
    private static final long LEAVE_TIMEOUT_NS = 10_000_000_000L;

    private final Gpu gpu;
    private final Gpu.Stream compute;
    private final Submissions submissions;
    private final Gpu.Stream sums;
    private final CUstream_st handle;
    /** Recorded on the kernels' stream before a sum. */
    private final Gpu.Event before;
    private final Gpu.Event end;
    private final RawPointer memory = new RawPointer();
    /** Guards every call with {@code comm}, which is {@code null} after the group was left. */
    private final Object lock = new Object();
    private @Nullable ncclComm comm = new ncclComm();
    private boolean closed;

    /** Begins to join. */
    NcclGroup(Gpu gpu, Gpu.Stream compute, Submissions submissions, Gpu.Stream sums, byte[] identifier, int rank,
            int world) {
        this.gpu = gpu;
        this.compute = compute;
        this.submissions = submissions;
        this.sums = sums;
        handle = NvidiaGpu.handle(sums);
        before = gpu.event();
        end = gpu.event();
        try (Arena arena = Arena.ofConfined()) {
            ncclUniqueId id = Nccl.identifier(arena);
            id.internal().put(identifier);
            ncclConfig_t config = unblocking(arena);
            gpu.enter();
            check(ncclCommInitRankConfig(comm, world, id, rank, config), "ncclCommInitRankConfig");
        } catch (RuntimeException | Error e) {
            gpu.closeEvent(before);
            gpu.closeEvent(end);
            throw e;
        }
    }

    /** Returns the configuration that NCCL's C initialiser sets, in nonblocking mode. */
    private static ncclConfig_t unblocking(Arena arena) {
        int unset = Integer.MIN_VALUE;
        ncclConfig_t c = new ncclConfig_t(RawPointer.of(arena.allocate(new ncclConfig_t(new RawPointer()).sizeof(),
                Long.BYTES)));
        return c.size(c.sizeof()).magic(NCCL_API_MAGIC).version(NCCL_VERSION_CODE).blocking(0).cgaClusterSize(unset)
                .minCTAs(unset).maxCTAs(unset).netName(null).splitShare(unset).trafficClass(unset).commName(null)
                .collnetEnable(unset).CTAPolicy(unset).shrinkShare(unset).nvlsCTAs(unset).nChannelsPerNetPeer(unset)
                .nvlinkCentricSched(unset).graphUsageMode(unset).numRmaCtx(unset);
    }

    /** Throws if a call failed; a call that continues in the background has not. */
    private void check(int status, String call) {
        if (status != ncclInProgress) {
            Nccl.check(status, call, status == ncclSuccess || comm == null || comm.isNull() ? ""
                    : ncclGetLastError(comm).getString());
        }
    }

    /** Returns whether the library's threads have finished the last call. */
    private boolean isSettled() {
        synchronized (lock) {
            if (comm == null) {
                throw left();
            }
            int[] state = new int[1];
            gpu.enter();
            check(ncclCommGetAsyncError(comm, state), "ncclCommGetAsyncError");
            check(state[0], "GPU group");
            return state[0] == ncclSuccess;
        }
    }

    private static TensorException left() {
        return new TensorException(TensorException.Problem.CLOSED, NAME, List.of(),
                "this process has left the group of GPUs", "join a new group");
    }

    @Override
    public boolean isDone() {
        return submissions.named(NAME, () -> isSettled() && gpu.isDone(end));
    }

    @Override
    public void allReduce(Tensor x, Duration timeout) {
        long begin = System.nanoTime();
        submissions.queue(NAME, () -> {
            gpu.record(before, compute);
            gpu.await(before, sums);
        });
        synchronized (lock) {
            if (comm == null) {
                throw left();
            }
            memory.to(x.address());
            gpu.enter();
            check(ncclAllReduce(memory, memory, x.count(), type(x.dtype()), ncclSum, comm, handle), "ncclAllReduce");
        }
        // The sum is on the stream once the library has settled; at the first sum that includes making links.
        while (!isSettled()) {
            if (System.nanoTime() - begin > timeout.toNanos()) {
                throw new TensorException(TensorException.Problem.DEVICE, NAME, List.of(x.spec()),
                        "NCCL did not start the sum within " + timeout,
                        "set NCCL_DEBUG=INFO to see which links it makes, or sum gradients through the host");
            }
            LockSupport.parkNanos(POLL_NS);
        }
        submissions.queue(NAME, () -> gpu.record(end, sums));
    }

    @Override
    public void await() {
        submissions.queue(NAME, () -> gpu.await(end, compute));
    }

    private static int type(DType type) {
        return switch (type) {
            case F32 -> ncclFloat32;
            case F64 -> ncclFloat64;
            case F16 -> ncclFloat16;
            case BF16 -> ncclBfloat16;
            case I32 -> ncclInt32;
            case I64 -> ncclInt64;
            default -> throw TensorException.argument(NAME, "NCCL cannot sum " + type + " over GPUs",
                    "convert it to f32 or i64");
        };
    }

    @Override
    public void abort() {
        synchronized (lock) {
            if (comm != null) {
                gpu.enter();
                ncclCommAbort(comm);
                comm = null;
            }
        }
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        leave();
        // After this, memory of sums may be reused even if they failed: kernels wait for the end of the stream.
        submissions.queue(NAME, () -> {
            gpu.record(end, sums);
            gpu.await(end, compute);
        });
        gpu.closeEvent(before);
        gpu.closeEvent(end);
    }

    private void leave() {
        synchronized (lock) {
            if (comm == null) {
                return;
            }
            gpu.enter();
            int status = ncclCommFinalize(comm);
            int[] state = {status};
            long start = System.nanoTime();
            while (state[0] == ncclInProgress && System.nanoTime() - start < LEAVE_TIMEOUT_NS) {
                LockSupport.parkNanos(POLL_NS);
                gpu.enter();
                status = ncclCommGetAsyncError(comm, state);
            }
            if (status == ncclInProgress || status == ncclSuccess && state[0] == ncclSuccess) {
                ncclCommDestroy(comm);
            } else {
                ncclCommAbort(comm);
            }
            comm = null;
        }
    }
}
