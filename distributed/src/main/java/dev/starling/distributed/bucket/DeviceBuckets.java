package dev.starling.distributed.bucket;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Buckets in the memory of a device; subclasses sum them. */
abstract class DeviceBuckets implements Reducer {
    private static final Update.Assign ASSIGN = new Update.Assign();

    private final Device device;
    private final List<Tensor> memory = new ArrayList<>();
    /** {@code null} before the first plan. */
    private @Nullable Tensor zero;
    /** Set by {@link #prepare}. */
    @SuppressWarnings("NullAway.Init")
    private BucketPlan plan;

    DeviceBuckets(Device device) {
        this.device = device;
    }

    @Override
    public final Device device() {
        return device;
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        plan = newPlan;
        if (zero == null) {
            zero = Scope.detached(() -> Device.with(device, () -> Tensor.full(DType.F32, 0)));
        }
        memory.forEach(Tensor::close);
        memory.clear();
        for (BucketPlan.Bucket bucket : plan.buckets()) {
            Tensor all = Scope.detached(() -> Storage.allocate(new Spec(bucket.dtype(), Shape.of(bucket.count()),
                    device)));
            memory.add(all);
            set(all);
        }
    }

    private void set(Tensor toZero) {
        try (Scope scope = Scope.open()) {
            Tensor.apply(ASSIGN, toZero, Objects.requireNonNull(zero).to(toZero.dtype()).expand(toZero.shape()));
        }
    }

    /** Returns a bucket's memory. */
    final Tensor bucket(int number) {
        return memory.get(number);
    }

    @Override
    public final Tensor slot(int entry, Shape shape) {
        BucketPlan.Place place = plan.places().get(entry);
        BucketPlan.Bucket bucket = plan.buckets().get(place.bucket());
        Tensor all = memory.get(place.bucket());
        return all.storage().view(all.spec().with(shape), shape.sharedStrides(),
                (place.offset() - bucket.offset()) / bucket.dtype().bytes());
    }

    @Override
    public final void clear(int entry) {
        set(slot(entry, Shape.of(plan.entries().get(entry).count())));
    }

    @Override
    public void close() {
        memory.forEach(Tensor::close);
        if (zero != null) {
            zero.close();
        }
    }
}
