package dev.starling.distributed.ps.server;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.group.Channels;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RunMembership;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableDirectByteBuffer;
import org.agrona.concurrent.ControlledMessageHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/**
 * A server as a member of its group: passes requests to the core and replies to workers, and keeps a session for each
 * worker. The thread that holds the group's lock handles messages; the thread of {@link #run} does everything else.
 */
public final class ServerNode {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final int REPLIES_BYTES = 4 << 20;
    private static final long ANNOUNCE_INTERVAL_NS = 50_000_000L;
    private static final long WORKING_INTERVAL_NS = 1_000_000_000L;
    private static final Duration CHECK_INTERVAL = Duration.ofSeconds(1);

    private final Membership group;
    private final int number;
    private final ServerConfig config;
    private final ExpandableDirectByteBuffer message = new ExpandableDirectByteBuffer();
    private final Backlog backlog = new Backlog();
    private final OneToOneRingBuffer replies = new OneToOneRingBuffer(new UnsafeBuffer(
            ByteBuffer.allocateDirect(REPLIES_BYTES + RingBufferDescriptor.TRAILER_LENGTH)));
    private final ControlledMessageHandler replySender = this::sendReply;
    private final Runnable duty = this::doWork;
    private long announcedNs = Long.MIN_VALUE;
    private final Set<Endpoint> servers = new HashSet<>();
    /** Other servers that have received this server's announcement. */
    private final Set<Endpoint> announcedTo = new HashSet<>();
    private final PlanParts plans = new PlanParts();
    /** Random number by which workers recognise a restart of the server. */
    private final long process = new SecureRandom().nextLong();
    private Plan plan;
    /** {@code null} before the first worker joins, and unless training is synchronous. */
    private RunMembership membership;
    /** Peers that have been sent the reason why synchronous training ends. */
    private final Set<Endpoint> notified = new HashSet<>();
    private long endingNs;
    private WorkerSession[] workers = {};
    private Sums sums;
    private final RowTasks tasks = new RowTasks();
    private long workingNs = Long.MIN_VALUE;
    private long notedStep = -1;
    private byte[] notes = new byte[0];
    private volatile ServerCore core;
    private volatile boolean done;
    private long lastSeenNs;
    private volatile RuntimeException failure;

    public ServerNode(Membership group, int number, ServerConfig config) {
        this.group = group;
        this.number = number;
        this.config = config;
        lastSeenNs = group.transport().nanoTime();
    }

    /** Serves until all workers are done. */
    public void run() {
        group.channel(Message.CHANNEL, this::onMessage);
        try {
            while (!done) {
                group.await(this::poll, CHECK_INTERVAL);
                if (failure != null) {
                    throw failure;
                }
                if (plan != null && core == null) {
                    open();
                }
                if (!done && group.isEnded()) {
                    throw group.failure();
                }
                if (!done && group.transport().nanoTime() - lastSeenNs > group.config().timeout().toNanos()) {
                    throw new DistributedException("server " + number + " has seen no worker for "
                            + group.config().timeout());
                }
            }
        } finally {
            group.channel(Message.CHANNEL, null);
            if (membership != null) {
                membership.close();
            }
            if (core != null) {
                core.close();
            }
        }
    }

    /** Does the server's periodic work; returns whether {@link #run} has to act outside of the group's wait. */
    private boolean poll() {
        if (core != null) {
            core.check();
        }
        group.locked(duty);
        return done || failure != null || plan != null && core == null || group.isEnded();
    }

    /**
     * Opens the core, which may take seconds to read the directory. Runs without the group's lock, so that the group
     * continues to receive messages and heartbeats.
     */
    private void open() {
        ServerConfig own = config.directory() == null ? config
                : config.directory(config.directory().resolve("server-" + number));
        ServerCore opened;
        try {
            opened = ServerCore.open(own, plan, number, this::offer);
        } catch (ServerException e) {
            group.locked(() -> {
                for (WorkerSession worker : workers) {
                    if (worker.endpoint != null) {
                        refuse(worker.endpoint, e.getMessage());
                    }
                }
            });
            throw e;
        }
        LOG.log(Level.INFO, "server {0} of {1} is ready: {2} units, {3}", number, plan.servers(), opened.units(),
                own.directory() == null ? "in memory" : "in " + own.directory());
        core = opened;
        group.locked(() -> sendToAll(Message.WELCOME));
    }

    /** Queues a reply; called by the reply stage. */
    private boolean offer(int worker, DirectBuffer buffer, int length) {
        int at = replies.tryClaim(worker + 1, Channels.HEADER + length);
        if (at < 0) {
            return false;
        }
        replies.buffer().putInt(at, Message.CHANNEL, Channels.ORDER);
        replies.buffer().putBytes(at + Channels.HEADER, buffer, 0, length);
        replies.commit(at);
        return true;
    }

    // ---- under the group's lock ----

    private void doWork() {
        announce();
        if (isOver()) {
            end(membership.failure());
            return;
        }
        if (core == null) {
            return;
        }
        backlog.drainTo(core);
        replies.controlledRead(replySender, 64);
        reportTasks();
        boolean anyFinished = false;
        boolean anyAwaited = false;
        for (int w = 0; w < workers.length; w++) {
            WorkerSession worker = workers[w];
            anyFinished |= worker.finished;
            anyAwaited |= worker.isAwaited();
            if (worker.endpoint != null && !worker.endpoint.isConnected()) {
                LOG.log(worker.finished ? Level.DEBUG : Level.WARNING, "server {0}: worker {1} disconnected: {2}",
                        number, w, worker.endpoint.reason());
                worker.vacate();
            }
            for (int kinds = worker.unsentKinds; kinds != 0; kinds &= kinds - 1) {
                send(w, Integer.numberOfTrailingZeros(kinds));
            }
            while (worker.nextUnitToLeave < core.units() && backlog.isEmpty()
                    && core.leave(w, worker.nextUnitToLeave)) {
                worker.nextUnitToLeave++;
            }
            if (worker.endpoint != null) {
                lastSeenNs = group.transport().nanoTime();
            }
        }
        if (anyAwaited && membership == null && group.failure() == null) {
            vacateAbsent();
        }
        done = anyFinished && areWorkersDone();
        if (membership == null && group.isCoordinatorLost()
                && Arrays.stream(workers).allMatch(worker -> worker.endpoint == null)) {
            // The group continued without this server, perhaps because its process was stopped; workers wait for it.
            group.rejoin();
        }
    }

    /** Stops waiting for workers that never joined and are not members of the group; they may still join later. */
    private void vacateAbsent() {
        if (group.view().members().stream().map(member -> group.endpoint(member.id())).allMatch(
                endpoint -> endpoint == null || servers.contains(endpoint) || isWorker(endpoint))) {
            Arrays.stream(workers).filter(WorkerSession::isAwaited).forEach(WorkerSession::vacate);
        }
    }

    private boolean isWorker(Endpoint endpoint) {
        return Arrays.stream(workers).anyMatch(worker -> worker.endpoint == endpoint);
    }

    /** Returns whether a member of a synchronous run was lost before the first worker was done. */
    private boolean isOver() {
        if (membership == null) {
            return false;
        }
        for (WorkerSession worker : workers) {
            if (worker.finished) {
                return false;
            }
        }
        membership.update();
        return membership.failure() != null;
    }

    /** Sends the workers the reason why training ends; ends this server when all have it, or after a timeout. */
    private void end(DistributedException why) {
        long now = group.transport().nanoTime();
        endingNs = endingNs == 0 ? now : endingNs;
        boolean complete = true;
        for (Endpoint each : membership.others()) {
            if (each.isConnected() && !servers.contains(each) && !notified.contains(each)) {
                complete &= sendFailure(each, why);
            }
        }
        if (complete || now - endingNs > group.transport().config().livenessTimeout().toNanos()) {
            failure = why;
        }
    }

    private boolean sendFailure(Endpoint to, DistributedException why) {
        if (why instanceof PeerLostException loss) {
            int end = RunMembership.write(loss, message, header(Message.LOST));
            if (to.send(message, 0, end) == Endpoint.BACK_PRESSURED) {
                return false;
            }
        } else {
            refuse(to, why.getMessage());
        }
        notified.add(to);
        return true;
    }

    /** Sends worker 0 changes of its task with rows, and all workers a sign of progress at intervals. */
    private void reportTasks() {
        RowState.Report report = workers[0].endpoint == null ? null : tasks.pollReport();
        if (report != null) {
            byte[] encoded = RowState.Report.CODEC.encode(report);
            int at = header(Message.TASK_STATE);
            message.putBytes(at, encoded);
            workers[0].endpoint.send(message, 0, at + encoded.length);
        }
        long now = group.transport().nanoTime();
        if ((workingNs == Long.MIN_VALUE || now - workingNs > WORKING_INTERVAL_NS) && tasks.pollProgress()) {
            workingNs = now;
            for (WorkerSession worker : workers) {
                if (worker.endpoint != null) {
                    worker.endpoint.send(message, 0, header(Message.WORKING));
                }
            }
        }
    }

    /** Returns whether all members that are connected or connecting are servers, or workers that are done. */
    private boolean areWorkersDone() {
        if (membership == null && group.failure() != null && !group.isCoordinatorLost()) {
            return false;
        }
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            boolean memberDone = endpoint == null || !endpoint.isConnected() || servers.contains(endpoint);
            for (int w = 0; !memberDone && w < workers.length; w++) {
                memberDone = workers[w].endpoint == endpoint && workers[w].isDone(group.transport(), core.units());
            }
            if (!memberDone) {
                return false;
            }
        }
        return true;
    }

    /**
     * Announces this server to all members, and repeats that to members of unknown role: a worker answers only once it
     * has started.
     */
    private void announce() {
        long now = group.transport().nanoTime();
        if (announcedNs != Long.MIN_VALUE && now - announcedNs < ANNOUNCE_INTERVAL_NS) {
            return;
        }
        announcedNs = now;
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            boolean unknown = endpoint != null && endpoint.isConnected() && !announcedTo.contains(endpoint)
                    && !isWorker(endpoint);
            if (unknown && endpoint.send(message, 0, header(Message.ANNOUNCE)) == Endpoint.OK
                    && servers.contains(endpoint)) {
                announcedTo.add(endpoint);
            }
        }
    }

    private int header(int kind) {
        message.putInt(0, Message.CHANNEL, Channels.ORDER);
        message.putInt(Channels.HEADER, kind, Message.ORDER);
        message.putInt(Channels.HEADER + 4, number, Message.ORDER);
        return Channels.HEADER + 8;
    }

    private ControlledMessageHandler.Action sendReply(int type, DirectBuffer buffer, int offset, int length) {
        Endpoint to = workers[type - 1].endpoint;
        return to != null && to.send(buffer, offset, length) == Endpoint.BACK_PRESSURED
                ? ControlledMessageHandler.Action.ABORT : ControlledMessageHandler.Action.CONTINUE;
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < 8) {
            return;
        }
        int kind = buffer.getInt(offset, Message.ORDER);
        int worker = buffer.getInt(offset + 4, Message.ORDER);
        if (kind == Message.ANNOUNCE) {
            servers.add(from);
        } else if (kind == Message.HELLO) {
            onHello(from, worker, buffer, offset + 8, length - 8);
        } else if (worker < 0 || worker >= workers.length || workers[worker].endpoint != from) {
            LOG.log(Level.DEBUG, "server {0} refused a message: its sender at {1} is not worker {2}", number,
                    from.address(), worker);
        } else if (kind >= Message.JOIN && kind <= Message.PULL_ROWS || kind == Message.KEPT) {
            onRequest(buffer, offset, length);
        } else {
            onControl(from, kind, worker, buffer, offset + 8, length - 8);
        }
    }

    private void onRequest(DirectBuffer buffer, int offset, int length) {
        try {
            if (core == null || !backlog.isEmpty() || !core.offer(buffer, offset, length)) {
                backlog.add(buffer, offset, length);
            }
        } catch (ServerException e) {
            // This thread may be any that works for the group; run() throws the failure.
            failure = e;
        }
    }

    private void onControl(Endpoint from, int kind, int worker, DirectBuffer buffer, int offset, int length) {
        switch (kind) {
            case Message.SUM -> {
                if (sums.receive(worker, buffer, offset, length)) {
                    sendToAll(Message.TOTAL);
                } else if (sums.hasTotalFor(buffer, offset, length)) {
                    send(worker, Message.TOTAL);
                }
            }
            case Message.LOST -> {
                if (membership != null) {
                    membership.onLossMessage(from, buffer, offset, length);
                }
            }
            case Message.NOTES -> storeNotes(buffer, offset, length);
            case Message.BEGIN -> {
                storeNotes(buffer, offset, length);
                if (core != null) {
                    sendToAll(Message.WELCOME);
                }
                send(worker, Message.BEGUN);
            }
            case Message.TASK -> onTask(worker, buffer, offset, length);
            case Message.GOODBYE -> send(worker, Message.FAREWELL);
            case Message.FAREWELL_CONFIRMED -> workers[worker].farewellConfirmed = true;
            default -> LOG.log(Level.WARNING, "server {0} refused a message of an unknown kind from worker {1}", number,
                    worker);
        }
    }

    private void onTask(int worker, DirectBuffer buffer, int offset, int length) {
        if (worker != 0) {
            return;
        }
        byte[] request = new byte[length];
        buffer.getBytes(offset, request);
        try {
            tasks.onRequest(core, request);
        } catch (ServerException e) {
            failure = e;
        } catch (IOException | RuntimeException e) {
            LOG.log(Level.WARNING, "server {0} refused a malformed task: {1}", number, e);
        }
    }

    private void storeNotes(DirectBuffer buffer, int offset, int length) {
        long step = length < 8 ? -1 : buffer.getLong(offset, Message.ORDER);
        if (step > notedStep && length < Channels.HEADER + 16_000) {
            notedStep = step;
            notes = new byte[length - 8];
            buffer.getBytes(offset + 8, notes);
        }
    }

    private void sendToAll(int kind) {
        for (int w = 0; w < workers.length; w++) {
            send(w, kind);
        }
    }

    /** Sends a control message to a worker if it is connected; under back-pressure {@link #doWork} sends it later. */
    private void send(int worker, int kind) {
        Endpoint to = workers[worker].endpoint;
        if (to == null) {
            return;
        }
        int at = header(kind);
        int length = switch (kind) {
            case Message.WELCOME -> {
                message.putInt(at, core.holdsEarlier() ? 1 : 0, Message.ORDER);
                message.putLong(at + 4, process, Message.ORDER);
                message.putBytes(at + 12, notes);
                yield at + 12 + notes.length;
            }
            case Message.TOTAL -> sums.writeTotal(message, at);
            default -> at;
        };
        boolean sent = to.send(message, 0, length) != Endpoint.BACK_PRESSURED;
        int unsent = workers[worker].unsentKinds;
        workers[worker].unsentKinds = sent ? unsent & ~(1 << kind) : unsent | 1 << kind;
        if (kind == Message.FAREWELL && sent) {
            workers[worker].finish(group.transport().nanoTime());
        }
    }


    /** Collects the parts of a worker's plan, and admits the worker when the plan is complete. */
    private void onHello(Endpoint from, int worker, DirectBuffer buffer, int offset, int length) {
        try {
            byte[] whole = plans.add(from, buffer, offset, length);
            if (whole != null) {
                admit(from, worker, whole);
            }
        } catch (IOException e) {
            refuse(from, e.getMessage());
        }
    }

    private void admit(Endpoint from, int worker, byte[] bytes) {
        Plan decoded;
        try {
            decoded = Plan.decode(bytes);
        } catch (IOException | RuntimeException e) {
            refuse(from, "the plan is malformed: " + e.getMessage());
            return;
        }
        if (plan == null) {
            if (number >= decoded.servers()) {
                refuse(from, "the plan has " + decoded.servers() + " servers, but this is server " + number
                        + "; set the number of servers in the workers' builders");
                return;
            }
            workers = Stream.generate(WorkerSession::new).limit(decoded.workers()).toArray(WorkerSession[]::new);
            sums = new Sums(decoded.workers());
            plan = decoded;
            if (plan.consistency() instanceof Consistency.Synchronous) {
                membership = new RunMembership(group, plan.workers() + plan.servers(), servers::contains);
            }
        }
        String difference = plan.difference(decoded);
        if (!difference.isEmpty() || worker < 0 || worker >= workers.length) {
            refuse(from, difference.isEmpty() ? "the number of worker " + worker + " is not below the number of "
                    + "workers, " + workers.length + "; number workers from 0" : "the settings of worker " + worker
                    + " differ from the first worker's: it has " + difference + "; give all workers the same settings");
            return;
        }
        if (membership != null && membership.failure() != null) {
            sendFailure(from, membership.failure());
            return;
        }
        WorkerSession session = workers[worker];
        if (!session.accepts(from, group.transport(), membership != null)) {
            if (session.claimRefused) {
                refuse(from, "another process is worker " + worker + (membership != null ? ", and no process can "
                        + "replace it in synchronous training; start all processes again from a checkpoint"
                        : ", and it is alive; give each worker a number of its own"));
            }
            return;
        }
        session.assign(from);
        if (core != null) {
            send(worker, Message.WELCOME);
        }
    }

    private void refuse(Endpoint to, String why) {
        LOG.log(Level.WARNING, "server {0} refused a worker: {1}", number, why);
        int at = header(Message.REFUSED);
        byte[] text = why.getBytes(StandardCharsets.UTF_8);
        message.putBytes(at, text);
        to.send(message, 0, at + text.length);
    }
}
