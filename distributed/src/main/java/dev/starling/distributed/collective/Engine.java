package dev.starling.distributed.collective;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.collective.call.Algorithm;
import dev.starling.distributed.collective.call.CollectiveCall.Kind;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.CollectiveTask;
import dev.starling.distributed.collective.call.Driver;
import dev.starling.distributed.collective.call.EpochMessages;
import dev.starling.distributed.collective.call.Exchange;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.distributed.collective.call.StateMachine;
import dev.starling.distributed.collective.call.SymmetricMemory;
import dev.starling.distributed.collective.call.Task;
import dev.starling.distributed.collective.call.Transfer;
import dev.starling.distributed.collective.network.NetworkCollectives;
import dev.starling.distributed.collective.network.PointToPoint;
import dev.starling.distributed.collective.shared.DirectCollectives;
import dev.starling.tensor.TensorException;
import dev.starling.transport.AllocatedMemory;
import dev.starling.transport.MemoryRegion;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Carries out the tasks of one epoch: collectives and exchanges one after the other, in the order in which they were
 * started, and transfers independently of these. Collectives run directly in memory that all ranks map, or over the
 * network. Confined to the thread that works for the group.
 */
public final class Engine implements Task.Runner, AutoCloseable {
    private static final int MAX_BLOB = 16 << 10;
    private static final long LINE = 64;

    /** Stands for any other thread when memory's accessibility is checked. */
    static final Thread OTHER_THREAD = Thread.ofPlatform().inheritInheritableThreadLocals(false)
            .unstarted(() -> { });

    static {
        // Otherwise this class would keep the class loader of the application that first used a group.
        OTHER_THREAD.setContextClassLoader(null);
    }

    private final Fabric fabric;
    private final Driver driver;
    private final EpochMessages messages;
    private final PointToPoint transfers;
    /** Collectives and exchanges. */
    private final ArrayDeque<Task> queue = new ArrayDeque<>();
    private final Exchanges exchanges;
    private final NetworkCollectives network;
    /** {@code null} if ranks do not map each other's memory. */
    private @Nullable DirectCollectives direct;
    /** What carries out the first task of the queue; {@code null} before it has begun. */
    private @Nullable StateMachine active;
    private final SymmetricMemory control;
    private boolean settled;
    private boolean closed;
    private long registrations;
    /** What ended the epoch, or {@code null}. */
    private @Nullable RuntimeException failure;
    /** Reports a failure of this rank to the others, or {@code null}. */
    private @Nullable MessageToAll abortMessage;

    /** Creates the engine of an epoch; messages start with the number of {@code channel}. */
    public Engine(Fabric fabric, Driver driver, int channel) {
        this.fabric = fabric;
        this.driver = driver;
        messages = new EpochMessages(fabric, channel);
        transfers = new PointToPoint(messages);
        exchanges = new Exchanges(messages);
        network = new NetworkCollectives(messages);
        // Ranks of a large group use little of it: their segments are short.
        long bytes = DirectCollectives.CONTROL_BYTES + network.scratchBytes();
        try {
            control = prepare(fabric.isMesh() ? fabric.transport().register(bytes)
                    : fabric.transport().registerSparse(bytes));
        } catch (RuntimeException e) {
            network.close();
            throw e;
        }
    }

    // ---- tasks ----

    /** Registers memory, or frees it and throws; {@link SymmetricMemory} describes the further steps. */
    public SymmetricMemory register(AllocatedMemory memory) {
        return prepare(fabric.transport().register(memory));
    }

    private SymmetricMemory prepare(MemoryRegion own) {
        try {
            SymmetricMemory memory = new SymmetricMemory(fabric, driver, this::exchange, this::onClosing,
                    registrations, own);
            registrations++;
            return memory;
        } catch (RuntimeException e) {
            own.close();
            throw e;
        }
    }

    /**
     * Starts an exchange of blobs.
     *
     * @param what is exchanged, for error messages
     */
    public Exchange exchange(byte[] blob, String what) {
        if (blob.length > MAX_BLOB) {
            throw TensorException.argument("exchange", "a rank can pass at most " + MAX_BLOB + " bytes, got "
                    + blob.length, "pass fewer bytes, or use a collective on a SymmetricBuffer");
        }
        Exchange task = new Exchange(this, blob.clone(), what);
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
     * @throws MembershipChangedException if the memory belongs to another epoch
     */
    public Task prepare(CollectiveCall call, @Nullable SymmetricMemory memory, long offset,
            @Nullable BooleanSupplier ready) {
        if (call.kind() == Kind.BARRIER) {
            return new CollectiveTask(this, call, control, 0, null);
        }
        checkOwner(call, Objects.requireNonNull(memory).fabric());
        check(call, memory.bytes(), offset);
        return new CollectiveTask(this, call.in(memory.number(), offset), memory, offset, ready);
    }

    /** Checks that memory belongs to these ranks: that of others is at other places, even if all make the call. */
    private void checkOwner(CollectiveCall call, Fabric owner) {
        if (owner.view().epoch() != fabric.view().epoch()) {
            throw new MembershipChangedException(call + ": the buffer belongs to epoch " + owner.view().epoch()
                    + ", and the collective to epoch " + fabric.view().epoch() + "; create a buffer in each epoch");
        }
        if (owner != fabric) {
            throw TensorException.argument(call.toString(), "the buffer belongs to another group or sub-group",
                    "create it by the same group's collectives");
        }
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
        if (!sending && bytes.isReadOnly()) {
            throw TensorException.argument("transfer", "the memory that receives is read-only", "pass writable memory");
        }
        return new Transfer(this, sending, peer, tag, bytes);
    }

    @Override
    public Driver driver() {
        return driver;
    }

    @Override
    public void start(Task task) {
        if (failure != null) {
            throw failure;
        }
        task.begin();
        switch (task) {
            case Transfer transfer -> transfers.start(transfer);
            case CollectiveTask _, Exchange _ -> queue.add(task);
        }
    }

    // ---- work ----

    /** Returns whether work is pending. */
    public boolean isBusy() {
        return !queue.isEmpty() || transfers.isBusy() || abortMessage != null && !abortMessage.isSent();
    }

    /**
     * Begins a task that has been started, if nothing else is in progress, so that it expects what is received next;
     * returns the amount of work done.
     */
    public int begin() {
        return active == null && !queue.isEmpty() ? doWork() : 0;
    }

    /** Returns whether the pending work needs no network, so that polling the network would only cost time. */
    public boolean worksDirectly() {
        return direct != null && !transfers.isBusy() && queue.peek() instanceof CollectiveTask task
                && algorithm(task) == direct;
    }

    private Algorithm algorithm(CollectiveTask task) {
        return direct != null && task.memory.isDirect() ? direct : network;
    }

    /** Advances the pending work; returns the amount of work done. */
    public int doWork() {
        if (failure != null) {
            return abortMessage == null ? 0 : abortMessage.send();
        }
        try {
            if (!settled) {
                openControl();
            }
            int work = transfers.doWork();
            Task first = queue.peek();
            return first == null ? work : work + advance(first);
        } catch (DistributedException e) {
            abort(e);
            return 1;
        } catch (RuntimeException e) {
            abort(new DistributedException("rank " + fabric.rank() + " failed"
                    + (active != null ? " in " + queue.peek() : "") + ": " + e, e));
            return 1;
        }
    }

    /** Opens the control pages, the first memory of an epoch, by two exchanges that precede all other tasks. */
    private void openControl() {
        if (control.maps() == null && control.keys().isDone()) {
            control.open();
            queue.addFirst(queue.removeLast());
        } else if (control.maps() != null && control.maps().isDone()) {
            control.settle();
            settled = true;
            network.open(control, DirectCollectives.CONTROL_BYTES);
            if (control.isDirect()) {
                direct = new DirectCollectives(fabric.rank(), control.memories());
            }
        }
    }

    private int advance(Task first) {
        int work = 0;
        if (active == null) {
            begin(first);
            work++;
        }
        if (active == null) {
            return 0;
        }
        work += active.doWork();
        // A send may have detected the loss of a peer, which fails the engine.
        if (failure == null && active.isDone()) {
            active = null;
            queue.remove();
            first.succeed();
            work++;
        }
        return work;
    }

    /** Begins a task, unless it has to wait. */
    private void begin(Task task) {
        switch (task) {
            case Exchange exchange -> {
                active = exchanges;
                exchanges.begin(exchange);
            }
            case CollectiveTask collective when settled && collective.isReady() -> {
                collective.memory.requireOpen(collective.call);
                Algorithm algorithm = algorithm(collective);
                active = algorithm;
                algorithm.begin(collective.call, collective.memory, collective.offset);
            }
            case CollectiveTask _ -> { }
            case Transfer _ -> throw new AssertionError(task + " is not queued");
        }
    }

    /** Handles a message; {@code offset} is that of the bytes after the channel number. */
    public void onMessage(int from, DirectBuffer buffer, int offset, int length) {
        int body = EpochMessages.BODY;
        if (length < body || EpochMessages.epoch(buffer, offset) != fabric.epoch() || failure != null) {
            return;
        }
        switch (EpochMessages.kind(buffer, offset)) {
            case EpochMessages.EXCHANGE -> exchanges.onMessage(from, EpochMessages.sequence(buffer, offset),
                    EpochMessages.body(buffer, offset, length));
            case EpochMessages.GATHERED -> exchanges.onGathered(EpochMessages.sequence(buffer, offset),
                    EpochMessages.body(buffer, offset, length));
            case EpochMessages.ABORT -> onAbort(from, EpochMessages.sequence(buffer, offset),
                    EpochMessages.body(buffer, offset, length));
            case EpochMessages.POINT_TO_POINT -> onTransfer(from, buffer, offset + body, length - body);
            case EpochMessages.NETWORK -> network.onMessage(from, buffer, offset + body, length - body);
            default -> { }
        }
    }

    /** Handles a message about a transfer, whose memory the caller may have closed. */
    private void onTransfer(int from, DirectBuffer buffer, int offset, int length) {
        try {
            transfers.onMessage(from, buffer, offset, length);
        } catch (DistributedException e) {
            abort(e);
        } catch (RuntimeException e) {
            abort(new DistributedException("rank " + fabric.rank() + " failed in a transfer from rank " + from + ": "
                    + e, e));
        }
    }

    /** Handles the arrival of a rank's put. */
    public void onPut(int from, long immediate) {
        network.onPut(from, immediate);
    }

    // ---- failures ----

    /** Ends the collective in progress if it uses memory that is about to be released. */
    private void onClosing(SymmetricMemory memory) {
        if (active != null && queue.peek() instanceof CollectiveTask first && first.memory == memory) {
            abort(new DistributedException("the buffer of " + first + " was closed while that was in progress; wait "
                    + "for the work before you close its buffer"));
        }
    }

    @Override
    public void abort(RuntimeException why) {
        if (failure == null) {
            abortMessage = new MessageToAll(messages, EpochMessages.ABORT, 0, Abort.encode(why));
            fail(why);
            abortMessage.send();
        }
    }

    /** Fails because another rank did, and passes its message on where it may not have a connection to all. */
    private void onAbort(int from, long origin, byte[] encoded) {
        int failed = origin > 0 && origin <= fabric.world() ? (int) origin - 1 : from;
        if (!fabric.isMesh()) {
            abortMessage = new MessageToAll(messages, EpochMessages.ABORT, failed + 1, encoded);
        }
        fail(Abort.decode(failed, encoded));
        doWork();
    }

    /** Fails all pending and future tasks of this rank. */
    public void fail(RuntimeException why) {
        if (failure == null) {
            failure = why;
            queue.forEach(task -> task.fail(why));
            queue.clear();
            transfers.fail(why);
            network.stop();
        }
    }

    /** Returns whether pending work needs a rank. */
    public boolean awaits(int rank) {
        return failure == null && (awaitedRank() == rank || transfers.awaits(rank));
    }

    /** Returns a rank for which the first task of the queue waits, or -1. */
    private int awaitedRank() {
        return active == null ? -1 : active.awaited();
    }

    @Override
    public String describeAwaited(Task task) {
        if (task instanceof Transfer transfer) {
            return transfers.describeAwaited(transfer);
        }
        if (active == null && queue.peek() instanceof CollectiveTask first && first.awaitsElements()) {
            return "the elements of rank " + fabric.rank() + " for " + first + " are not ready";
        }
        int rank = awaitedRank();
        return rank < 0 ? "all ranks have arrived" : "rank " + rank + " has not arrived";
    }

    /** Frees the memory of the engine, once: a group closes its last engine again if it cannot create the next. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        fail(new DistributedException("the group is closed"));
        network.close();
        control.close();
    }
}
