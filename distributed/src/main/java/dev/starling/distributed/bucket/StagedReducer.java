package dev.starling.distributed.bucket;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.state.DeviceCopies;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;

/**
 * Buckets in the memory of a device, each with a staging area in memory of the host that is registered with the
 * transport and that the device copies to and from asynchronously. A full bucket is copied to the host during the
 * backward pass and reduced, in the order of buckets, as soon as the copy is complete; its sums are copied back while
 * other buckets are reduced.
 */
final class StagedReducer extends DeviceBuckets {
    private final Collectives collectives;
    private final SymmetricBuffer buffer;
    private final DeviceCopies copies;
    /** Set by {@link #prepare}. */
    @SuppressWarnings("NullAway.Init")
    private BucketPlan plan;
    private PinnedMemory.Part[] parts = {};
    private Work[] works = {};

    /**
     * Registers memory. Collective.
     *
     * @param timeout how long the device's copies may take before their memory is reused or released
     */
    StagedReducer(Collectives collectives, Device device, long bytes, Duration timeout) {
        super(device);
        this.collectives = collectives;
        buffer = collectives.symmetric(bytes);
        try {
            copies = new DeviceCopies(device, buffer.memory(), timeout);
        } catch (RuntimeException e) {
            buffer.close();
            throw e;
        }
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        copies.clear();
        plan = newPlan;
        buffer.memory().fill((byte) 0);
        super.prepare(plan);
        parts = new PinnedMemory.Part[plan.buckets().size()];
        works = new Work[parts.length];
        BucketPlan.Place vector = plan.places().getLast();
        for (int b = 0; b < works.length; b++) {
            BucketPlan.Bucket bucket = plan.buckets().get(b);
            // The vector is the last entry, and stays on the host.
            long end = b == vector.bucket() ? vector.offset()
                    : bucket.offset() + bucket.count() * bucket.dtype().bytes();
            PinnedMemory.Part part = copies.part(bucket.offset(), end - bucket.offset());
            parts[b] = part;
            works[b] = collectives.prepareAllReduce(buffer, bucket.offset(), bucket.count(), bucket.dtype(),
                    ReduceOp.SUM, "gradient bucket " + b + " of " + works.length, part::isDone);
        }
    }

    @Override
    public MemorySegment vector() {
        int last = plan.entries().size() - 1;
        return buffer.memory().asSlice(plan.places().get(last).offset(), plan.entries().get(last).size());
    }

    @Override
    public void start(int bucket) {
        parts[bucket].download(bucket(bucket).address());
        works[bucket].start();
    }

    @Override
    public void await(Duration atMost) {
        for (int b = 0; b < works.length; b++) {
            works[b].await(atMost);
            parts[b].upload(bucket(b).address());
        }
    }

    @Override
    public void close() {
        // A work is missing where preparing them has failed.
        if (Arrays.stream(works).anyMatch(work -> work != null && !work.isDone())) {
            collectives.stop();
        }
        if (copies.awaitLast()) {
            try {
                copies.close();
            } finally {
                super.close();
                buffer.close();
            }
        }
    }
}
