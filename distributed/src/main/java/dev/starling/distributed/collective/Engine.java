package dev.starling.distributed.collective;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.call.Task;
import dev.starling.distributed.collective.call.Transfer;
import dev.starling.distributed.collective.network.NetworkCollectives;
import dev.starling.distributed.collective.network.PointToPoint;
import dev.starling.distributed.collective.shared.DirectCollectives;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Endpoint;
import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Runs the collectives of one epoch, one after the other, in the order in which they were started: directly in memory
 * that all ranks map, or over the network. Confined to the thread that works for the group.
 */
public final class Engine implements AutoCloseable {
    private static final int MAX_BLOB = 16 << 10;
    private static final long LINE = 64;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    /** Stands for any other thread when memory's accessibility is checked. */
    private static final Thread OTHER_THREAD = Thread.ofPlatform().unstarted(() -> { });

    private final Fabric fabric;
    private final EpochMessages messages;
    /** Blobs received, by number of the exchange and rank. */
    private final Map<Long, byte[][]> received = new HashMap<>();
    private final Task controlKeys;
    private final SymmetricMemory control;
    private final NetworkCollectives network;
    private final PointToPoint transfers;
    private Algorithm direct;
    private boolean settled;
    private Task first;
    private Task last;
    /** Whether the first task has begun. */
    private boolean begun;
    private Algorithm active;
    /** Ranks that have been sent the blob of the present exchange. */
    private boolean[] sent;
    private long exchanges;
    private long registrations;
    private RuntimeException failure;
    /** The abort message while a rank has yet to be sent it, or {@code null}. */
    private UnsafeBuffer abortMessage;
    private boolean[] abortSent;

    /** Creates the engine of an epoch; messages start with the number of {@code channel}. */
    public Engine(Fabric fabric, int channel) {
        this.fabric = fabric;
        messages = new EpochMessages(fabric, channel);
        network = new NetworkCollectives(messages);
        transfers = new PointToPoint(messages);
        control = register(DirectCollectives.CONTROL_BYTES + network.scratchBytes());
        controlKeys = control.keys();
    }

    /** Registers memory; {@link SymmetricMemory} describes the further steps. */
    public SymmetricMemory register(long bytes) {
        SymmetricMemory memory = new SymmetricMemory(fabric, this::exchange, registrations, bytes);
        registrations++;
        return memory;
    }

    /** Starts an exchange of blobs. */
    public Task exchange(byte[] blob) {
        if (blob.length > MAX_BLOB) {
            throw TensorException.argument("exchange", "a rank can pass at most " + MAX_BLOB + " bytes, got "
                    + blob.length, "pass fewer bytes, or use a collective on a SymmetricBuffer");
        }
        Task task = new Task(null, null, 0, null, blob.clone());
        start(task);
        return task;
    }

    /**
     * Creates a task, which is not started.
     *
     * @param memory that contains the elements, or {@code null} for a barrier
     * @param offset of the elements, in bytes
     * @param ready returns whether the elements have arrived, and is polled until then; {@code null} if they have
     *     arrived whenever the task is started
     * @throws TensorException if the call is invalid, even if all ranks make it
     */
    public Task prepare(CollectiveCall call, SymmetricMemory memory, long offset, BooleanSupplier ready) {
        if (call.kind() == Kind.BARRIER) {
            return new Task(call, null, 0, null, null);
        }
        check(call, memory.bytes(), offset);
        return new Task(call.in(memory.number(), offset), memory, offset, ready, null);
    }

    private void check(CollectiveCall call, long bytes, long offset) {
        boolean chunked = call.kind() == Kind.REDUCE_SCATTER || call.kind() == Kind.ALL_GATHER;
        if (chunked && call.count() % fabric.world() != 0) {
            throw TensorException.argument(call.toString(), "the number of elements, " + call.count()
                    + ", must be a multiple of the number of ranks, " + fabric.world(), "pad the elements");
        }
        if (call.root() < 0 || call.root() >= fabric.world()) {
            throw TensorException.argument(call.toString(), "the root must be a rank from 0 to "
                    + (fabric.world() - 1) + ", got " + call.root(), "pass an existing rank");
        }
        if (offset < 0 || offset % LINE != 0) {
            throw TensorException.argument(call.toString(), "the offset must be a multiple of " + LINE + ", got "
                    + offset, "align the elements");
        }
        if (offset > bytes || call.count() > (bytes - offset) / call.dtype().bytes()) {
            throw TensorException.argument(call.toString(), "the elements at byte " + offset
                    + " do not fit into a buffer of " + bytes + " bytes", "register a larger buffer");
        }
    }

    /** Creates a task that sends bytes to another rank, or receives them; it is not started. */
    public Task transfer(boolean sending, int peer, int tag, MemorySegment bytes) {
        if (peer < 0 || peer >= fabric.world() || peer == fabric.rank()) {
            throw TensorException.argument("transfer", "rank " + fabric.rank() + " of " + fabric.world()
                    + " can send to and receive from other ranks, not rank " + peer, "pass another rank");
        }
        if (!bytes.isAccessibleBy(OTHER_THREAD)) {
            throw TensorException.argument("transfer", "the memory belongs to an arena that is confined to a thread, "
                    + "but the group's thread must access it", "use a shared or automatic arena");
        }
        return new Task(new Transfer(sending, peer, tag, bytes));
    }

    /** Appends a task to the queue. */
    public void start(Task task) {
        if (failure != null) {
            throw failure;
        }
        task.begin();
        if (task.transfer != null) {
            transfers.start(task.transfer);
            return;
        }
        task.next(null);
        if (last == null) {
            first = task;
        } else {
            last.next(task);
        }
        last = task;
    }

    /** Returns whether work is pending. */
    public boolean isBusy() {
        return first != null || transfers.isBusy() || abortMessage != null;
    }

    /** Returns whether the pending work needs no network, so that polling the network would only cost time. */
    public boolean worksDirectly() {
        Task task = first;
        return !transfers.isBusy() && task != null && task.call != null && direct != null
                && (task.memory == null || task.memory.isDirect());
    }

    /** Advances the pending work; returns the amount of work done. */
    public int doWork() {
        if (failure != null) {
            return sendAbort();
        }
        try {
            if (!settled) {
                openControl();
            }
            int work = transfers.doWork();
            Task task = first;
            if (task != null) {
                work += task.blob != null ? exchange(task) : collective(task);
            }
            return work;
        } catch (DistributedException e) {
            abort(e);
            return 1;
        } catch (RuntimeException e) {
            abort(new DistributedException("rank " + fabric.rank() + " failed"
                    + (begun ? " in " + first : "") + ": " + e, e));
            return 1;
        }
    }

    /** Opens the control pages, the first memory of an epoch, by two exchanges that precede all other tasks. */
    private void openControl() {
        if (!controlKeys.isDone()) {
            return;
        }
        if (control.mapped() == null) {
            Task rest = first;
            first = null;
            last = null;
            control.open();
            Task own = last;
            own.next(rest);
            if (rest != null) {
                last = tail(rest);
            }
        } else if (control.mapped().isDone()) {
            control.settle();
            settled = true;
            network.open(control, DirectCollectives.CONTROL_BYTES);
            if (control.isDirect()) {
                direct = new DirectAlgorithm(new DirectCollectives(fabric.rank(), control.memories()));
            }
        }
    }

    private static Task tail(Task task) {
        Task end = task;
        while (end.next() != null) {
            end = end.next();
        }
        return end;
    }

    private int exchange(Task task) {
        int work = 0;
        if (!begun) {
            begun = true;
            sent = new boolean[fabric.world()];
        }
        UnsafeBuffer message = null;
        for (int rank = 0; rank < sent.length; rank++) {
            if (rank != fabric.rank() && !sent[rank]) {
                if (message == null) {
                    message = messages.of(EpochMessages.EXCHANGE, exchanges, task.blob);
                }
                int code = fabric.endpoint(rank).send(message, 0, message.capacity());
                // A peer that has closed needs no blob. If its own blob is required, `received` shows that it is
                // missing.
                sent[rank] = code == Endpoint.OK || code == Endpoint.CLOSED;
                work += sent[rank] ? 1 : 0;
            }
        }
        byte[][] blobs = received.computeIfAbsent(exchanges, s -> new byte[fabric.world()][]);
        blobs[fabric.rank()] = task.blob;
        for (int rank = 0; rank < blobs.length; rank++) {
            if (blobs[rank] == null || rank != fabric.rank() && !sent[rank]) {
                return work;
            }
        }
        if (failure != null) {
            return work;
        }
        received.remove(exchanges);
        exchanges++;
        removeFirst();
        task.succeed(blobs);
        return work + 1;
    }

    private int collective(Task task) {
        if (!settled || !begun && !task.isReady()) {
            return 0;
        }
        int work = 0;
        if (!begun) {
            active = direct != null && (task.memory == null || task.memory.isDirect()) ? direct : network;
            begun = true;
            active.begin(task.call, task.memory, task.offset);
            work++;
        }
        work += active.doWork();
        // A send may have detected the loss of a peer, which fails the engine.
        if (failure == null && active.isDone()) {
            active = null;
            removeFirst();
            task.succeed(null);
            work++;
        }
        return work;
    }

    private void removeFirst() {
        begun = false;
        first = first.next();
        if (first == null) {
            last = null;
        }
    }

    /** Handles a message; {@code offset} is that of the bytes after the channel number. */
    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        int rest = EpochMessages.HEADER - Integer.BYTES;
        if (length < rest || EpochMessages.epoch(buffer, offset) != fabric.epoch() || failure != null) {
            return;
        }
        switch (buffer.getInt(offset, ORDER)) {
            case EpochMessages.EXCHANGE -> {
                long sequence = buffer.getLong(offset + 12, ORDER);
                // A rank is at most one exchange ahead of another.
                if (sequence == exchanges || sequence == exchanges + 1) {
                    byte[] blob = new byte[length - rest];
                    buffer.getBytes(offset + rest, blob);
                    received.computeIfAbsent(sequence, s -> new byte[fabric.world()][])[from] = blob;
                }
            }
            case EpochMessages.ABORT -> {
                byte[] encoded = new byte[length - rest];
                buffer.getBytes(offset + rest, encoded);
                fail(Abort.decode(from, encoded));
            }
            case EpochMessages.POINT_TO_POINT -> transfers.onMessage(from, buffer, offset + rest, length - rest);
            case EpochMessages.NETWORK -> network.onMessage(from, buffer, offset + rest, length - rest);
            default -> { }
        }
    }

    /** Handles the arrival of a rank's put. */
    public void onPut(int from, long immediate) {
        network.onPut(from, immediate);
    }

    /** Fails all pending and future tasks, on this rank and on the others. */
    public void abort(RuntimeException why) {
        if (failure == null) {
            abortMessage = messages.of(EpochMessages.ABORT, 0, Abort.encode(why));
            abortSent = new boolean[fabric.world()];
            abortSent[fabric.rank()] = true;
            fail(why);
            sendAbort();
        }
    }

    private int sendAbort() {
        int work = 0;
        boolean all = true;
        for (int rank = 0; abortMessage != null && rank < abortSent.length; rank++) {
            if (!abortSent[rank]) {
                int code = fabric.endpoint(rank).send(abortMessage, 0, abortMessage.capacity());
                abortSent[rank] = code == Endpoint.OK || code == Endpoint.CLOSED;
                work += abortSent[rank] ? 1 : 0;
                all &= abortSent[rank];
            }
        }
        abortMessage = all ? null : abortMessage;
        return work;
    }

    /** Fails all pending and future tasks of this rank. */
    public void fail(RuntimeException why) {
        if (failure == null) {
            failure = why;
            for (Task task = first; task != null; task = task.next()) {
                task.fail(why);
            }
            first = null;
            last = null;
            transfers.fail(why);
            network.stop();
        }
    }

    /** Returns whether pending work needs a rank. */
    public boolean awaits(int rank) {
        return failure == null && (awaitedRank() == rank || transfers.awaits(rank));
    }

    /** Returns a rank for which the present collective waits, or -1. */
    private int awaitedRank() {
        if (active != null) {
            return active.awaited();
        }
        if (first != null && first.blob != null && begun) {
            byte[][] blobs = received.get(exchanges);
            for (int rank = 0; rank < fabric.world(); rank++) {
                if (blobs[rank] == null) {
                    return rank;
                }
            }
        }
        return -1;
    }

    /** Describes what a task waits for, for the message of a timeout. */
    public String describeAwaited(Task task) {
        if (task.transfer != null) {
            return "rank " + task.transfer.peer
                    + (task.transfer.isAgreed() ? " makes no progress" : " has not arrived");
        }
        int rank = awaitedRank();
        if (first != null && first.ready != null && !begun) {
            return "the elements of rank " + fabric.rank() + " for " + first + " are not ready";
        }
        return rank < 0 ? "all ranks have arrived" : "rank " + rank + " has not arrived";
    }

    @Override
    public void close() {
        fail(new DistributedException("the group is closed"));
        network.close();
        control.close();
    }

    /** Adapts {@link DirectCollectives}. */
    private record DirectAlgorithm(DirectCollectives direct) implements Algorithm {
        @Override
        public void begin(CollectiveCall call, SymmetricMemory memory, long offset) {
            direct.begin(call, memory == null ? null : memory.memories(), offset);
        }

        @Override
        public int doWork() {
            return direct.doWork();
        }

        @Override
        public boolean isDone() {
            return direct.isDone();
        }

        @Override
        public int awaited() {
            return direct.awaited();
        }
    }
}
