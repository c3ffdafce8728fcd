package dev.starling.cuda.gpu;

import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Where all work for a device is queued: no thread captures the stream meanwhile, the work is a range in Nsight
 * Systems, and an error of the device becomes one that names the work. Safe for use by several threads.
 */
public final class Submissions {
    private final String device;
    private final boolean synchronous;
    /** {@code null} without ranges. */
    private final @Nullable Nvtx nvtx;
    private final Supplier<String> shortage;
    /** Write-locked during a capture of the stream, read-locked while work is queued. */
    private final ReentrantReadWriteLock order = new ReentrantReadWriteLock();

    /**
     * Makes the entry to a device.
     *
     * @param device name of the device
     * @param synchronous whether all work is waited for
     * @param nvtx ranges, or {@code null} for none
     * @param shortage describes the device's memory, for errors about a lack of it
     */
    public Submissions(String device, boolean synchronous, @Nullable Nvtx nvtx, Supplier<String> shortage) {
        this.device = device;
        this.synchronous = synchronous;
        this.nvtx = nvtx;
        this.shortage = shortage;
    }

    /** Waits for the work of a stream if all work is waited for. */
    public void settle(Gpu gpu, Gpu.Stream stream) {
        if (synchronous) {
            Waits.synchronize(gpu, stream, "synchronous mode");
        }
    }

    /** Queues work without operands. */
    public void queue(String work, Runnable body) {
        queue(work, work, List::of, () -> {
            body.run();
            return null;
        });
    }

    /**
     * Queues work.
     *
     * @param range name of the range
     * @param work name of the work in errors
     * @param operands operands of the work in errors
     */
    public <T> T queue(String range, String work, Supplier<List<Spec>> operands, Supplier<T> body) {
        order.readLock().lock();
        if (nvtx != null) {
            nvtx.push(range);
        }
        try {
            return body.get();
        } catch (GpuException e) {
            throw named(e, work, operands.get());
        } finally {
            if (nvtx != null) {
                nvtx.pop();
            }
            order.readLock().unlock();
        }
    }

    /** Queues copies between the host and the device, which a capture cannot record. */
    public void queueCopy(String work, Runnable copy) {
        queue(work, () -> {
            if (order.isWriteLockedByCurrentThread()) {
                throw new GpuException("copies through the host cannot be captured in a graph");
            }
            copy.run();
        });
    }

    /** Runs a body that captures the stream or changes a captured graph, while no other thread queues work. */
    public <T> T exclusively(String work, Supplier<T> body) {
        order.writeLock().lock();
        try {
            return named(work, body);
        } finally {
            order.writeLock().unlock();
        }
    }

    /** Runs a body that queues nothing. */
    public <T> T named(String work, Supplier<T> body) {
        try {
            return body.get();
        } catch (GpuException e) {
            throw named(e, work, List.of());
        }
    }

    private TensorException named(GpuException e, String work, List<Spec> operands) {
        TensorException named = e.isExhausted()
                ? new TensorException(TensorException.Problem.MEMORY, work, operands, device + " reports "
                        + e.getMessage() + ", " + shortage.get(), "close scopes earlier or use smaller batches")
                : new TensorException(TensorException.Problem.DEVICE, work, operands, device + " reports "
                        + e.getMessage(), e.remedy() != null ? e.remedy()
                        : synchronous ? "report it with this message"
                        : "set CUDA_LAUNCH_BLOCKING=1 to find the operation that failed: it may be an earlier one");
        named.initCause(e);
        return named;
    }
}
