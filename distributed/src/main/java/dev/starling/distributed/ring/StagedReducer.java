package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

/**
 * Buckets in the memory of a device, and beside each its place in memory of the host that is registered with the
 * transport and that the device copies to and from by itself. A bucket that is full sets off while the backward pass
 * goes on; it is reduced, in the order of buckets, as soon as it is there; its sums return while others are reduced.
 */
final class StagedReducer implements Reducer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long POLL_NS = 20_000;

    private final Collectives collectives;
    private final Duration patience;
    private final DeviceBuckets memory;
    private final SymmetricBuffer buffer;
    private final PinnedMemory pinned;
    private BucketPlan plan;
    private PinnedMemory.Part[] parts = {};
    private Work[] works = {};

    /**
     * Registers memory. Collective.
     *
     * @param patience how long the device's copies may take when their memory is to be used otherwise
     */
    StagedReducer(Collectives collectives, Device device, long bytes, Duration patience) {
        this.collectives = collectives;
        this.patience = patience;
        buffer = collectives.symmetric(bytes);
        memory = new DeviceBuckets(device);
        pinned = device.backend().pin(buffer.memory().address(), bytes);
    }

    @Override
    public Device device() {
        return memory.device();
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        if (!awaitCopies()) {
            throw new DistributedException("waited " + patience + " for gradients to be copied back to "
                    + memory.device());
        }
        plan = newPlan;
        buffer.memory().fill((byte) 0);
        memory.prepare(plan);
        forgetParts();
        parts = new PinnedMemory.Part[plan.buckets().size()];
        works = new Work[parts.length];
        BucketPlan.Place vector = plan.places().getLast();
        for (int b = 0; b < works.length; b++) {
            BucketPlan.Bucket bucket = plan.buckets().get(b);
            // The vector comes last, and stays on the host.
            long end = b == vector.bucket() ? vector.offset()
                    : bucket.offset() + bucket.count() * bucket.dtype().bytes();
            PinnedMemory.Part part = pinned.part(bucket.offset(), end - bucket.offset());
            parts[b] = part;
            works[b] = collectives.prepareAllReduce(buffer, bucket.offset(), bucket.count(), bucket.dtype(),
                    ReduceOp.SUM, "gradient bucket " + b + " of " + works.length, part::isDone);
        }
    }

    private void forgetParts() {
        for (PinnedMemory.Part part : parts) {
            part.close();
        }
        parts = new PinnedMemory.Part[0];
    }

    @Override
    public Tensor slot(int entry, Shape shape) {
        return memory.slot(entry, shape);
    }

    @Override
    public void clear(int entry) {
        memory.clear(entry);
    }

    @Override
    public MemorySegment vector() {
        int last = plan.entries().size() - 1;
        return buffer.memory().asSlice(plan.places().get(last).offset(), plan.entries().get(last).size());
    }

    @Override
    public void start(int bucket) {
        parts[bucket].download(memory.bucket(bucket).address());
        works[bucket].start();
    }

    @Override
    public void await(Duration atMost) {
        for (int b = 0; b < works.length; b++) {
            works[b].await(atMost);
            parts[b].upload(memory.bucket(b).address());
        }
    }

    /** Waits until the host's memory is its own again; returns whether it is. */
    private boolean awaitCopies() {
        long begin = System.nanoTime();
        for (PinnedMemory.Part part : parts) {
            while (!part.isDone()) {
                if (System.nanoTime() - begin > patience.toNanos()) {
                    return false;
                }
                LockSupport.parkNanos(POLL_NS);
            }
        }
        return true;
    }

    @Override
    public void close() {
        if (Arrays.stream(works).anyMatch(work -> !work.isDone())) {
            collectives.stop();
        }
        try {
            if (!awaitCopies()) {
                LOG.log(Level.ERROR, "{0} still copies to or from memory of the host after {1}: {2} bytes are not given"
                        + " back", memory.device(), patience, buffer.bytes());
                return;
            }
        } catch (TensorException e) {
            // A device that is broken copies no more.
            LOG.log(Level.WARNING, "{0}", e.getMessage());
        }
        try {
            forgetParts();
            pinned.close();
        } finally {
            memory.close();
            buffer.close();
        }
    }
}
