package dev.starling.distributed.bucket;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.View;
import dev.starling.distributed.Work;
import dev.starling.distributed.group.Membership;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
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
import org.jspecify.annotations.Nullable;

/**
 * Buckets in the memory of devices, which sum them among themselves during the backward pass; only the vector, by which
 * each rank also learns that all ranks have reached this point, travels through the host. The group detects the loss of
 * a rank, and the operation that the device then waits for is aborted.
 */
final class DeviceReducer extends DeviceBuckets {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final int LINE = 64;

    private final Epoch epoch;
    private final Collectives collectives;
    private final Runnable removeListener;
    private final SymmetricBuffer buffer;
    private final Work vectorWork;
    private boolean complete = true;

    /** A device, identified across hosts. */
    private record Place(String host, String device) { }

    /** The devices of an epoch's ranks. They are aborted when the epoch ends, even while this rank waits for them. */
    private record Epoch(Membership group, long number, DeviceGroup ranks, Duration timeout) {
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

        /** Waits for the devices. If the epoch has ended, that is reported rather than its consequences. */
        void await(Duration limit, String what) {
            TensorException[] error = new TensorException[1];
            boolean done = group.await(() -> {
                try {
                    return isOver() || ranks.isDone();
                } catch (TensorException e) {
                    error[0] = e;
                    return true;
                }
            }, limit);
            if (error[0] != null) {
                throw failed(error[0]);
            }
            check();
            if (!done) {
                ranks.abort();
                throw new DistributedException("waited " + limit + " for " + what
                        + ": all ranks take part, but not all devices have finished");
            }
        }

        /**
         * Returns the exception to throw for an error of a device: if a rank was lost, the group will know it soon.
         */
        DistributedException failed(TensorException error) {
            ranks.abort();
            group.await(this::isOver, timeout);
            check();
            return new DistributedException("the sum over devices failed: " + error.getMessage(), error);
        }
    }

    private DeviceReducer(Epoch epoch, Collectives collectives, Device device, Runnable removeListener,
            int vectorSize) {
        super(device);
        this.epoch = epoch;
        this.removeListener = removeListener;
        this.collectives = collectives;
        buffer = collectives.symmetric(Math.ceilDiv((long) vectorSize * Float.BYTES, LINE) * LINE);
        vectorWork = collectives.prepareAllReduce(buffer, 0, vectorSize, DType.F32, ReduceOp.SUM, "status vector");
    }

    /**
     * Connects the devices of all ranks, if each rank has one of its own on the same host, a library connects them, and
     * all ranks allow it. Collective.
     *
     * @return the reducer, or {@code null} if that is not possible
     */
    static @Nullable DeviceReducer join(Membership group, Collectives collectives, Device device,
            boolean allowed, int vectorSize, Duration timeout) {
        View view = group.view();
        DeviceCollectives library = allowed ? device.backend().collectives() : null;
        byte[] own = library == null ? new byte[0] : library.device().getBytes(StandardCharsets.UTF_8);
        byte[][] devices = collectives.exchange(own);
        List<Member> members = view.members();
        // Without a library on one rank, none has one: its device has no name.
        if (library == null || !haveOwnDevices(members, devices, group.rank())
                || members.stream().map(Member::host).distinct().count() > 1) {
            return null;
        }
        int rank = group.rank();
        byte[] identifier = collectives.exchange(rank == 0 ? library.identifier() : own)[0];
        Epoch epoch = new Epoch(group, view.epoch(), library.join(identifier, rank, devices.length), timeout);
        Runnable removeListener = group.onChange(epoch::abortIfOver);
        try {
            epoch.await(timeout, "devices to join");
            LOG.log(Level.DEBUG, "rank {0} of {1} sums gradients on {2}", rank, devices.length, device);
            return new DeviceReducer(epoch, collectives, device, removeListener, vectorSize);
        } catch (RuntimeException e) {
            removeListener.run();
            epoch.ranks.abort();
            epoch.ranks.close();
            throw e;
        }
    }

    /** Returns whether each rank has a device of its own; of ranks that share one, the first logs a warning. */
    private static boolean haveOwnDevices(List<Member> members, byte[][] devices, int own) {
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
                LOG.log(Level.WARNING, "ranks {0} share the device {1}: they use it alternately, and gradients go"
                        + " through the host''s memory; use a device of its own for each rank, such as"
                        + " Device.cuda(rank), or start no more processes than there are devices", ranks, place.device);
            }
        });
        return users.size() == devices.length;
    }

    @Override
    public MemorySegment vector() {
        return buffer.memory();
    }

    @Override
    public void start(int bucket) {
        epoch.check();
        complete = false;
        try {
            epoch.ranks.allReduce(bucket(bucket), epoch.timeout);
        } catch (TensorException e) {
            throw epoch.failed(e);
        }
    }

    @Override
    public void await(Duration atMost) {
        vectorWork.start();
        vectorWork.await(atMost);
        epoch.await(atMost, "sums of gradients");
        epoch.ranks.await();
        complete = true;
    }

    @Override
    public void close() {
        removeListener.run();
        if (!complete || !vectorWork.isDone() || epoch.isOver()) {
            epoch.ranks.abort();
            collectives.stop();
        }
        try {
            epoch.ranks.close();
        } finally {
            super.close();
            buffer.close();
        }
    }
}
