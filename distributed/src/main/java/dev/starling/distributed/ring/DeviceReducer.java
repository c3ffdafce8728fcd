package dev.starling.distributed.ring;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.View;
import dev.starling.distributed.Work;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Buckets in the memory of devices, which add them up among themselves; only the vector, by which ranks also learn that
 * all have come, goes through the host. Loss of a rank is noticed by the group; what the device then waits for is
 * aborted.
 */
final class DeviceReducer implements Reducer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final Update.Assign ASSIGN = new Update.Assign();
    private static final int LINE = 64;

    private final Epoch epoch;
    private final Collectives collectives;
    private final Device device;
    private final Runnable unlisten;
    private final SymmetricBuffer buffer;
    private final Work told;
    private final List<Tensor> memory = new ArrayList<>();
    private final Tensor zero;
    private BucketPlan plan;
    private boolean whole = true;

    /** The devices of an epoch's ranks, which are let go when it ends, whatever this rank is waiting for then. */
    private record Epoch(Group group, long number, DeviceGroup ranks, Duration patience) {
        boolean isOver() {
            return group.failure() != null || group.view().epoch() != number;
        }

        void abortIfOver() {
            if (isOver()) {
                ranks.abort();
            }
        }

        void check() {
            group.check();
            if (isOver()) {
                throw new MembershipChangedException("epoch " + number + " has ended");
            }
        }

        /** Waits for the devices; that the epoch ended is told rather than what came of it. */
        void await(Duration atMost, String what) {
            TensorException[] broken = new TensorException[1];
            boolean done = group.await(() -> {
                try {
                    return isOver() || ranks.isDone();
                } catch (TensorException e) {
                    broken[0] = e;
                    return true;
                }
            }, atMost);
            if (broken[0] != null) {
                throw failed(broken[0]);
            }
            check();
            if (!done) {
                ranks.abort();
                throw new DistributedException("waited " + atMost + " for " + what
                        + ": all ranks have come, but not all devices");
            }
        }

        /** Returns what is to be thrown for an error of a device: if a rank was lost, the group knows it soon. */
        DistributedException failed(TensorException error) {
            ranks.abort();
            group.await(this::isOver, patience);
            check();
            return new DistributedException("the sum over devices failed: " + error.getMessage(), error);
        }
    }

    private DeviceReducer(Epoch epoch, Collectives collectives, Device device, Runnable unlisten, int vectorSize) {
        this.epoch = epoch;
        this.unlisten = unlisten;
        this.collectives = collectives;
        this.device = device;
        zero = Scope.detached(() -> Device.with(device, () -> Tensor.full(DType.F32, 0)));
        buffer = collectives.symmetric(Math.ceilDiv((long) vectorSize * Float.BYTES, LINE) * LINE);
        told = collectives.prepareAllReduce(buffer, 0, vectorSize, DType.F32, ReduceOp.SUM, "what ranks tell");
    }

    /**
     * Joins the devices of all ranks, if each has one of its own on the same host and a library connects them, and all
     * wish it. Collective.
     *
     * @return the reducer, or {@code null}
     */
    static DeviceReducer join(Group group, Device device, boolean wished, int vectorSize, Duration patience) {
        Collectives collectives = group.collectives();
        View view = group.view();
        DeviceCollectives library = wished ? device.backend().collectives() : null;
        byte[] own = library == null ? new byte[0] : library.device().getBytes(StandardCharsets.UTF_8);
        byte[][] devices = collectives.exchange(own);
        Set<String> different = new HashSet<>();
        for (byte[] name : devices) {
            different.add(new String(name, StandardCharsets.UTF_8));
        }
        boolean together = view.members().stream().map(Member::host).distinct().count() == 1;
        if (!together || different.contains("") || different.size() < devices.length) {
            return null;
        }
        int rank = group.rank();
        byte[] identifier = collectives.exchange(rank == 0 ? library.identifier() : own)[0];
        Epoch epoch = new Epoch(group, view.epoch(), library.join(identifier, rank, devices.length), patience);
        Runnable unlisten = group.onChange(epoch::abortIfOver);
        try {
            epoch.await(patience, "devices to join");
            LOG.log(Level.DEBUG, "rank {0} of {1} sums gradients on {2}", rank, devices.length, device);
            return new DeviceReducer(epoch, collectives, device, unlisten, vectorSize);
        } catch (RuntimeException e) {
            unlisten.run();
            epoch.ranks.abort();
            throw e;
        }
    }

    @Override
    public Device device() {
        return device;
    }

    @Override
    public void prepare(BucketPlan newPlan) {
        plan = newPlan;
        memory.forEach(Tensor::close);
        memory.clear();
        for (BucketPlan.Bucket bucket : plan.buckets()) {
            Tensor all = Scope.detached(() -> Tensor.allocate(new Spec(bucket.dtype(), Shape.of(bucket.count()),
                    device)));
            memory.add(all);
            set(all);
        }
    }

    private void set(Tensor toZero) {
        try (Scope scope = Scope.open()) {
            Tensor.apply(ASSIGN, toZero, zero.to(toZero.dtype()).expand(toZero.shape()));
        }
    }

    @Override
    public Tensor slot(int entry, Shape shape) {
        BucketPlan.Place place = plan.places().get(entry);
        BucketPlan.Bucket bucket = plan.buckets().get(place.bucket());
        return memory.get(place.bucket()).view(shape, shape.contiguousStrides(),
                (place.offset() - bucket.offset()) / bucket.dtype().bytes());
    }

    @Override
    public void clear(int entry) {
        set(slot(entry, Shape.of(plan.entries().get(entry).count())));
    }

    @Override
    public MemorySegment vector() {
        return buffer.memory();
    }

    @Override
    public void start(int bucket) {
        epoch.check();
        whole = false;
        try {
            epoch.ranks.allReduce(memory.get(bucket));
        } catch (TensorException e) {
            throw epoch.failed(e);
        }
    }

    @Override
    public void await(Duration atMost) {
        told.start();
        told.await(atMost);
        epoch.await(atMost, "sums of gradients");
        whole = true;
    }

    @Override
    public void close() {
        unlisten.run();
        if (whole && told.isDone() && !epoch.isOver()) {
            epoch.ranks.close();
        } else {
            epoch.ranks.abort();
            collectives.cease();
        }
        memory.forEach(Tensor::close);
        zero.close();
        buffer.close();
    }
}
