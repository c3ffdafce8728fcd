package dev.starling.distributed.collective;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.collective.CollectiveCall.Kind;
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
 * Does the collectives of one epoch, one after the other, in the order in which they were started: directly in memory
 * that all ranks map, or over the network. Confined to the thread that works for the group.
 *
 * <p>Messages: channel i32, kind i32, epoch i64, sequence i64, rest. Those of other epochs are dropped.
 */
public final class Engine implements AutoCloseable {
    /** Length in bytes of what messages begin with, the channel included. */
    static final int HEADER = 24;

    private static final int EXCHANGE = 1;
    private static final int ABORT = 2;
    static final int NETWORK = 3;
    static final int POINT_TO_POINT = 4;
    private static final int MAX_BLOB = 16 << 10;
    private static final long LINE = 64;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private static final Thread ANOTHER = Thread.ofPlatform().unstarted(() -> { });

    private final Fabric fabric;
    private final int channel;
    private final Map<Long, byte[][]> heard = new HashMap<>();
    private final Task controlKeys;
    private final SymmetricMemory control;
    private final NetworkCollectives network;
    private final PointToPoint transfers;
    private Algorithm direct;
    private boolean settled;
    private Task first;
    private Task last;
    private boolean begun;
    private Algorithm active;
    private boolean[] told;
    private long exchanges;
    private long registrations;
    private RuntimeException failure;
    private UnsafeBuffer aborting;
    private boolean[] aborted;

    /** Begins the collectives of an epoch; {@code channel} is what messages to peers begin with. */
    public Engine(Fabric fabric, int channel) {
        this.fabric = fabric;
        this.channel = channel;
        network = new NetworkCollectives(this);
        transfers = new PointToPoint(this);
        control = register(DirectCollectives.CONTROL_BYTES + network.scratchBytes());
        controlKeys = control.keys();
    }

    Fabric fabric() {
        return fabric;
    }

    /** Registers memory; see {@link SymmetricMemory} for what follows. */
    public SymmetricMemory register(long bytes) {
        SymmetricMemory memory = new SymmetricMemory(this, registrations, bytes);
        registrations++;
        return memory;
    }

    /** Starts an exchange of blobs. */
    public Task exchange(byte[] blob) {
        if (blob.length > MAX_BLOB) {
            throw TensorException.argument("exchange", "at most " + MAX_BLOB + " bytes can be exchanged, got "
                    + blob.length, "send less");
        }
        Task task = new Task(null, null, 0, null, blob.clone());
        start(task);
        return task;
    }

    /**
     * Makes a task, which is not started.
     *
     * @param memory that the elements are in, or {@code null} for a barrier
     * @param offset where they begin, in bytes
     * @param ready tells whether they are there, and is asked until they are by whoever works for the group; or
     *     {@code null} if they are whenever the task is started
     * @throws TensorException if ranks that all called for this could not do it
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
            throw TensorException.argument(call.toString(),
                    "the number of elements must be a multiple of that of ranks, "
                    + fabric.world(), "pad it");
        }
        if (call.root() < 0 || call.root() >= fabric.world()) {
            throw TensorException.argument(call.toString(), "there are ranks 0 to " + (fabric.world() - 1), "name one");
        }
        if (offset < 0 || offset % LINE != 0) {
            throw TensorException.argument(call.toString(), "needs an offset that is a multiple of " + LINE + ", got "
                    + offset, "move it");
        }
        if (offset > bytes || call.count() > (bytes - offset) / call.dtype().bytes()) {
            throw TensorException.argument(call.toString(), "at byte " + offset + " does not fit in a buffer of "
                    + bytes + " bytes", "register a larger one");
        }
    }

    /** Makes a task that sends bytes to another rank, or receives them; it is not started. */
    public Task transfer(boolean sending, int peer, int tag, MemorySegment bytes) {
        if (peer < 0 || peer >= fabric.world() || peer == fabric.rank()) {
            throw TensorException.argument("transfer", "rank " + fabric.rank() + " of " + fabric.world()
                    + " can send to and receive from other ranks, not rank " + peer, "name another rank");
        }
        if (!bytes.isAccessibleBy(ANOTHER)) {
            throw TensorException.argument("transfer",
                    "memory of an arena that is confined to a thread cannot be sent or"
                    + " received", "use a shared or automatic arena");
        }
        return new Task(new Transfer(sending, peer, tag, bytes));
    }

    /** Appends a task to those that are to be done. */
    public void start(Task task) {
        if (failure != null) {
            throw failure;
        }
        task.begin();
        if (task.transfer != null) {
            transfers.start(task.transfer);
            return;
        }
        task.next = null;
        if (last == null) {
            first = task;
        } else {
            last.next = task;
        }
        last = task;
    }

    /** Returns whether there is something to do. */
    public boolean isBusy() {
        return first != null || transfers.isBusy() || aborting != null;
    }

    /** Returns whether what there is to do needs no network, so that looking there would only take time. */
    public boolean worksDirectly() {
        Task task = first;
        return !transfers.isBusy() && task != null && task.call != null && direct != null
                && (task.memory == null || task.memory.isDirect());
    }

    /** Gets on; returns the amount of work done. */
    public int doWork() {
        if (failure != null) {
            return tellAbort();
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
            abandon(e);
            return 1;
        } catch (RuntimeException e) {
            abandon(new DistributedException("rank " + fabric.rank() + " cannot go on"
                    + (begun ? " with " + first : "") + ": " + e, e));
            return 1;
        }
    }

    /** The control pages are the first memory of an epoch: two exchanges that come before all else. */
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
            own.next = rest;
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
        while (end.next != null) {
            end = end.next;
        }
        return end;
    }

    private int exchange(Task task) {
        int work = 0;
        if (!begun) {
            begun = true;
            told = new boolean[fabric.world()];
        }
        UnsafeBuffer message = null;
        for (int rank = 0; rank < told.length; rank++) {
            if (rank != fabric.rank() && !told[rank]) {
                if (message == null) {
                    message = message(EXCHANGE, exchanges, task.blob);
                }
                int code = fabric.endpoint(rank).send(message, 0, message.capacity());
                // Who has left has no use for it; whether it is missed shows in what it has not said.
                told[rank] = code == Endpoint.OK || code == Endpoint.CLOSED;
                work += told[rank] ? 1 : 0;
            }
        }
        byte[][] said = heard.computeIfAbsent(exchanges, s -> new byte[fabric.world()][]);
        said[fabric.rank()] = task.blob;
        for (int rank = 0; rank < said.length; rank++) {
            if (said[rank] == null || rank != fabric.rank() && !told[rank]) {
                return work;
            }
        }
        if (failure != null) {
            return work;
        }
        heard.remove(exchanges);
        exchanges++;
        remove();
        task.succeed(said);
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
        // A send may have found that a peer is lost.
        if (failure == null && active.isDone()) {
            active = null;
            remove();
            task.succeed(null);
            work++;
        }
        return work;
    }

    private void remove() {
        begun = false;
        first = first.next;
        if (first == null) {
            last = null;
        }
    }

    /** Sends a message of the network's algorithm; returns the transport's code. */
    int send(int rank, DirectBuffer message, int offset, int length) {
        return fabric.endpoint(rank).send(message, offset, length);
    }

    /** Writes what a message begins with. */
    void header(UnsafeBuffer message, int kind) {
        write(message, kind, 0);
    }

    private void write(UnsafeBuffer message, int kind, long sequence) {
        message.putInt(0, channel, ORDER);
        message.putInt(4, kind, ORDER);
        message.putLong(8, fabric.epoch(), ORDER);
        message.putLong(16, sequence, ORDER);
    }

    private UnsafeBuffer message(int kind, long sequence, byte[] rest) {
        UnsafeBuffer message = new UnsafeBuffer(new byte[HEADER + rest.length]);
        write(message, kind, sequence);
        message.putBytes(HEADER, rest);
        return message;
    }

    /** Takes a message; {@code offset} is that of what follows the channel. */
    public void take(int from, DirectBuffer buffer, int offset, int length) {
        int rest = HEADER - Integer.BYTES;
        if (length < rest || buffer.getLong(offset + 4, ORDER) != fabric.epoch() || failure != null) {
            return;
        }
        switch (buffer.getInt(offset, ORDER)) {
            case EXCHANGE -> {
                long sequence = buffer.getLong(offset + 12, ORDER);
                // A rank is at most one exchange ahead of another.
                if (sequence == exchanges || sequence == exchanges + 1) {
                    byte[] blob = new byte[length - rest];
                    buffer.getBytes(offset + rest, blob);
                    heard.computeIfAbsent(sequence, s -> new byte[fabric.world()][])[from] = blob;
                }
            }
            case ABORT -> {
                byte[] said = new byte[length - rest];
                buffer.getBytes(offset + rest, said);
                fail(Abort.decode(from, said));
            }
            case POINT_TO_POINT -> transfers.onMessage(from, buffer, offset + rest, length - rest);
            case NETWORK -> network.onMessage(from, buffer, offset + rest, length - rest);
            default -> { }
        }
    }

    /** Learns that a rank's put has arrived. */
    public void told(int from, long immediate) {
        network.onPut(from, immediate);
    }

    /** Ends all that is under way or will be started, here and on the other ranks. */
    public void abandon(RuntimeException why) {
        if (failure == null) {
            aborting = message(ABORT, 0, Abort.encode(why));
            aborted = new boolean[fabric.world()];
            aborted[fabric.rank()] = true;
            fail(why);
            tellAbort();
        }
    }

    private int tellAbort() {
        int work = 0;
        boolean all = true;
        for (int rank = 0; aborting != null && rank < aborted.length; rank++) {
            if (!aborted[rank]) {
                int code = fabric.endpoint(rank).send(aborting, 0, aborting.capacity());
                aborted[rank] = code == Endpoint.OK || code == Endpoint.CLOSED;
                work += aborted[rank] ? 1 : 0;
                all &= aborted[rank];
            }
        }
        aborting = all ? null : aborting;
        return work;
    }

    /** Ends all that is under way or will be started. */
    public void fail(RuntimeException why) {
        if (failure == null) {
            failure = why;
            for (Task task = first; task != null; task = task.next) {
                task.fail(why);
            }
            first = null;
            last = null;
            transfers.fail(why);
            network.breakOff();
        }
    }

    /** Returns whether something under way needs that rank. */
    public boolean awaits(int rank) {
        return failure == null && (awaitedRank() == rank || transfers.awaits(rank));
    }

    /** Returns a rank that the collective under way waits for, or -1. */
    private int awaitedRank() {
        if (active != null) {
            return active.awaited();
        }
        if (first != null && first.blob != null && begun) {
            byte[][] said = heard.get(exchanges);
            for (int rank = 0; rank < fabric.world(); rank++) {
                if (said[rank] == null) {
                    return rank;
                }
            }
        }
        return -1;
    }

    /** Says who has not come. */
    public String awaited(Task task) {
        if (task.transfer != null) {
            return "rank " + task.transfer.peer + (task.transfer.agreed ? " does not get on" : " has not come");
        }
        int rank = awaitedRank();
        if (first != null && first.ready != null && !begun) {
            return "what rank " + fabric.rank() + " gives to " + first + " is not there yet";
        }
        return rank < 0 ? "all ranks have come" : "rank " + rank + " has not come";
    }

    @Override
    public void close() {
        fail(new DistributedException("the group is closed"));
        network.close();
        control.close();
    }

    /** Directly in memory. */
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
