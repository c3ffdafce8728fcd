package dev.starling.distributed.bucket;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.bucket.GradientBucket.Gradient;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Buckets in memory of the host that is registered with the transport. A codec reduces those that contain f32
 * gradients, and an all-reduce the others.
 */
final class HostReducer implements Reducer {
    private final Collectives collectives;
    private final int rank;
    private final int world;
    private final List<Shape> shapes;
    /** {@code null} if gradients are not compressed. */
    private final @Nullable GradientCodec codec;
    private final SymmetricBuffer buffer;
    /** By gradient, what a codec has not sent yet; {@code null} where no codec has asked for it. */
    private final float[] @Nullable [] residuals;
    /** Set by {@link #prepare}. */
    @SuppressWarnings("NullAway.Init")
    private BucketPlan plan;
    private BucketReduction[] reductions = {};
    /** For each bucket whether it was started and is not complete. */
    private boolean[] pending = {};
    /** The vector's own all-reduce; {@code null} where that of its bucket includes it. */
    private @Nullable Work vectorWork;

    /** A plain all-reduce. */
    private record Sum(Work work) implements BucketReduction {
        @Override
        public void start() {
            work.start();
        }

        @Override
        public boolean proceed(Duration timeout) {
            work.await(timeout);
            return false;
        }
    }

    /**
     * Registers memory. Collective.
     *
     * @param shapes of all gradients
     * @param codec that reduces f32 gradients; {@code null} for an all-reduce
     */
    HostReducer(Collectives collectives, int rank, int world, List<Shape> shapes, @Nullable GradientCodec codec,
            long bytes) {
        this.collectives = collectives;
        this.rank = rank;
        this.world = world;
        this.shapes = shapes;
        this.codec = codec;
        residuals = new float[shapes.size()][];
        buffer = collectives.symmetric(bytes);
    }

    @Override
    public Device device() {
        return Device.cpu();
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        closeReductions();
        plan = newPlan;
        buffer.memory().fill((byte) 0);
        reductions = new BucketReduction[plan.buckets().size()];
        pending = new boolean[reductions.length];
        vectorWork = null;
        for (int b = 0; b < reductions.length; b++) {
            reductions[b] = reduction(b, "gradient bucket " + b + " of " + reductions.length);
        }
    }

    private BucketReduction reduction(int number, String label) {
        BucketPlan.Bucket bucket = plan.buckets().get(number);
        boolean fits = bucket.count() <= Integer.MAX_VALUE - 8;
        if (codec == null || bucket.dtype() != DType.F32 || !fits) {
            return new Sum(collectives.prepareAllReduce(buffer, bucket.offset(), bucket.count(), bucket.dtype(),
                    ReduceOp.SUM, label));
        }
        BucketPlan.Place vector = plan.places().getLast();
        Work statusSum = null;
        long end = bucket.offset() + bucket.count() * Float.BYTES;
        if (vector.bucket() == number) {
            // It fills last, so it is behind all gradients.
            end = vector.offset();
            statusSum = collectives.prepareAllReduce(buffer, vector.offset(), plan.entries().getLast().count(),
                    DType.F32, ReduceOp.SUM, "status vector");
        }
        List<Gradient> gradients = new ArrayList<>();
        for (int i = 0; i < shapes.size(); i++) {
            BucketPlan.Place place = plan.places().get(i);
            if (place.bucket() == number) {
                gradients.add(new Gradient(i, shapes.get(i), (place.offset() - bucket.offset()) / Float.BYTES));
            }
        }
        if (gradients.isEmpty()) {
            return new Sum(Objects.requireNonNull(statusSum));
        }
        gradients.sort((a, b) -> Long.compare(a.offset(), b.offset()));
        vectorWork = statusSum;
        MemorySegment memory = buffer.memory().asSlice(bucket.offset(), end - bucket.offset());
        return codec.reduction(new GradientBucket(label, gradients, memory, collectives, rank, world, this::residual));
    }

    private float[] residual(int gradient) {
        if (residuals[gradient] == null) {
            residuals[gradient] = new float[Math.toIntExact(shapes.get(gradient).count())];
        }
        return residuals[gradient];
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
        pending[bucket] = true;
        reductions[bucket].start();
        if (vectorWork != null && bucket == plan.places().getLast().bucket()) {
            vectorWork.start();
        }
    }

    @Override
    public void await(Duration atMost) {
        boolean more = true;
        while (more) {
            more = false;
            for (int b = 0; b < reductions.length; b++) {
                if (pending[b]) {
                    pending[b] = reductions[b].proceed(atMost);
                    more |= pending[b];
                }
            }
        }
        if (vectorWork != null) {
            vectorWork.await(atMost);
        }
    }

    private boolean isPending(int bucket) {
        return pending[bucket] && !(reductions[bucket] instanceof Sum sum && sum.work.isDone());
    }

    private void closeReductions() {
        for (BucketReduction each : reductions) {
            // A reduction that could not be created ends the creation of all.
            if (each != null) {
                each.close();
            }
        }
    }

    @Override
    public void close() {
        boolean stops = vectorWork != null && !vectorWork.isDone();
        for (int b = 0; b < reductions.length; b++) {
            stops |= isPending(b);
        }
        if (stops) {
            collectives.stop();
        }
        closeReductions();
        buffer.close();
    }
}
