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
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Buckets in the memory of devices, which add them up among themselves while the backward pass goes on; only the
 * vector, by which ranks also learn that all have come, goes through the host. Loss of a rank is noticed by the group;
 * what the device then waits for is aborted.
 */
final class DeviceReducer implements Reducer {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final int LINE = 64;

    private final Epoch epoch;
    private final Collectives collectives;
    private final Runnable unlisten;
    private final SymmetricBuffer buffer;
    private final Work told;
    private final DeviceBuckets memory;
    private boolean whole = true;

    /** A device among those of all hosts. */
    private record Place(String host, String device) { }

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
        memory = new DeviceBuckets(device);
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
        List<Member> members = view.members();
        if (!areApart(members, devices, group.rank())
                || members.stream().map(Member::host).distinct().count() > 1) {
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

    /** Tells whether each rank has a device of its own; the first of those that share one warns of it. */
    private static boolean areApart(List<Member> members, byte[][] devices, int own) {
        Map<Place, List<Integer>> users = new LinkedHashMap<>();
        for (int rank = 0; rank < devices.length; rank++) {
            if (devices[rank].length == 0) {
                return false;
            }
            Place place = new Place(members.get(rank).host(), new String(devices[rank], StandardCharsets.UTF_8));
            users.computeIfAbsent(place, p -> new ArrayList<>()).add(rank);
        }
        users.forEach((place, ranks) -> {
            if (ranks.size() > 1 && ranks.getFirst() == own) {
                LOG.log(Level.WARNING, "ranks {0} share the device {1}: they take turns at it, and gradients go through"
                        + " the host''s memory; give each rank a device of its own, such as Device.cuda(rank), or"
                        + " start no more processes than there are devices", ranks, place.device);
            }
        });
        return users.size() == devices.length;
    }

    @Override
    public Device device() {
        return memory.device();
    }

    @Override
    public void prepare(BucketPlan plan) {
        memory.prepare(plan);
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
        return buffer.memory();
    }

    @Override
    public void start(int bucket) {
        epoch.check();
        whole = false;
        try {
            epoch.ranks.allReduce(memory.bucket(bucket), epoch.patience);
        } catch (TensorException e) {
            throw epoch.failed(e);
        }
    }

    @Override
    public void await(Duration atMost) {
        told.start();
        told.await(atMost);
        epoch.await(atMost, "sums of gradients");
        epoch.ranks.await();
        whole = true;
    }

    @Override
    public void close() {
        unlisten.run();
        if (!whole || !told.isDone() || epoch.isOver()) {
            epoch.ranks.abort();
            collectives.stop();
        }
        try {
            epoch.ranks.close();
        } finally {
            memory.close();
            buffer.close();
        }
    }
}
