package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;

/** Buckets in memory of the host that is registered with the transport. */
final class HostReducer implements Reducer {
    private final Collectives collectives;
    private final SymmetricBuffer buffer;
    private BucketPlan plan;
    private Work[] works;

    /** Registers memory. Collective. */
    HostReducer(Collectives collectives, long bytes) {
        this.collectives = collectives;
        buffer = collectives.symmetric(bytes);
    }

    @Override
    public Device device() {
        return Device.cpu();
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        plan = newPlan;
        buffer.memory().fill((byte) 0);
        works = new Work[plan.buckets().size()];
        for (int b = 0; b < works.length; b++) {
            BucketPlan.Bucket bucket = plan.buckets().get(b);
            works[b] = collectives.prepareAllReduce(buffer, bucket.offset(), bucket.count(), bucket.dtype(),
                    ReduceOp.SUM, "gradient bucket " + b + " of " + works.length);
        }
    }

    private MemorySegment segment(int entry) {
        return buffer.memory().asSlice(plan.places().get(entry).offset(), plan.entries().get(entry).size());
    }

    @Override
    public Tensor slot(int entry, Shape shape) {
        return Tensor.wrap(segment(entry), plan.entries().get(entry).dtype(), shape.dims());
    }

    @Override
    public void clear(int entry) {
        segment(entry).fill((byte) 0);
    }

    @Override
    public MemorySegment vector() {
        return segment(plan.entries().size() - 1);
    }

    @Override
    public void start(int bucket) {
        works[bucket].start();
    }

    @Override
    public void await(Duration atMost) {
        for (Work work : works) {
            work.await(atMost);
        }
    }

    @Override
    public void close() {
        if (Arrays.stream(works).anyMatch(work -> !work.isDone())) {
            collectives.stop();
        }
        buffer.close();
    }
}
