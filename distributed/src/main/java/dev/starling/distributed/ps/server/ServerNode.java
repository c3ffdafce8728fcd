package dev.starling.distributed.ps.server;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Strategies;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.server.WorkerSession.Due;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Opening;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RunMembership;
import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.errors.Durations;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A server as a member of its group: passes requests to the core and replies to workers, and keeps a session for each
 * worker. The thread that holds the group's lock handles messages; the thread of {@link #run} does everything else.
 */
public final class ServerNode {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long WORKING_INTERVAL_NS = 1_000_000_000L;
    private static final Duration CHECK_INTERVAL = Duration.ofSeconds(1);

    private final Membership group;
    private final int number;
    private final ServerConfig config;
    private final UnsafeBuffer message = new UnsafeBuffer(0, 0);
    private final Backlog backlog = new Backlog();
    private final Replies replies = new Replies();
    private final Runnable duty = this::doWork;
    private final PlanParts plans = new PlanParts();
    /** Random number by which workers recognise a restart of the server. */
    private final long process = new SecureRandom().nextLong();
    /** {@code null} before the first worker joins. */
    private @Nullable Admission admission;
    /** The difference between workers that ends the run, or {@code null}. */
    private @Nullable SettingsMismatchException mismatch;
    /** {@code null} before the first worker joins, and unless training is synchronous. */
    private @Nullable RunMembership membership;
    /** Peers that have been sent the reason why synchronous training ends. */
    private final Set<Endpoint> notified = new HashSet<>();
    private long endingNs;
    private WorkerSession[] workers = {};
    private final RowTasks tasks = new RowTasks();
    private long workingNs = Long.MIN_VALUE;
    private long notedStep = -1;
    private Map<String, String> notes = Map.of();
    /** {@code null} before the directory is read. */
    private volatile @Nullable ServerCore core;
    private volatile boolean done;
    private volatile long lastSeenNs;
    /** What {@link #run} throws, or {@code null}. */
    private volatile @Nullable RuntimeException failure;

    /**
     * Creates a server.
     *
     * @throws DistributedException if this process did not join the group as a server
     */
    public ServerNode(Membership group, ServerConfig config) {
        if (!(group.config().role() instanceof Role.Server role)) {
            throw new DistributedException("this process has joined the group as a worker; join it with "
                    + "GroupConfig.role(new Role.Server(number)) to serve");
        }
        this.group = group;
        number = role.number();
        this.config = config;
        lastSeenNs = group.transport().nanoTime();
    }

    /** Serves until all workers are done. */
    public void run() {
        group.channel(Message.CHANNEL, this::onMessage);
        Strategies.begin(group, "ps");
        try {
            while (!done) {
                group.await(this::poll, CHECK_INTERVAL);
                if (failure != null) {
                    throw failure;
                }
                if (admission != null && core == null) {
                    open(admission.plan());
                    // Meanwhile no worker counted as seen.
                    lastSeenNs = group.transport().nanoTime();
                }
                if (!done && group.isEnded()) {
                    throw Objects.requireNonNull(group.failure());
                }
                if (!done && group.transport().nanoTime() - lastSeenNs > group.config().timeout().toNanos()) {
                    throw new DistributedException("server " + number + " has seen no worker for "
                            + Durations.text(group.config().timeout()));
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
        return done || failure != null || admission != null && core == null || group.isEnded();
    }

    /**
     * Opens the core, which may take seconds to read the directory. Runs without the group's lock, so that the group
     * continues to receive messages and heartbeats.
     */
    private void open(Plan of) {
        ServerConfig own = config.directory() == null ? config
                : config.directory(config.directory().resolve("server-" + number));
        ServerCore opened;
        try {
            opened = ServerCore.open(own, of, number, replies);
        } catch (ServerException e) {
            group.locked(() -> connections().forEach(to -> refuse(to, String.valueOf(e.getMessage()))));
            throw e;
        }
        LOG.log(Level.INFO, "server {0} of {1} is ready: {2} units, {3}", number, of.servers(), opened.units(),
                own.directory() == null ? "in memory" : "in " + own.directory());
        core = opened;
        group.locked(this::welcomeAll);
    }

    // ---- under the group's lock ----

    private void doWork() {
        RunEndedException over = over();
        if (over != null) {
            end(over);
            return;
        }
        if (core == null) {
            return;
        }
        backlog.drainTo(core::offer);
        replies.sendTo(workers, core.units());
        reportTasks();
        boolean anyFinished = false;
        boolean anyAwaited = false;
        for (int w = 0; w < workers.length; w++) {
            WorkerSession worker = workers[w];
            anyFinished |= worker.isFinished();
            anyAwaited |= worker.isAwaited();
            Endpoint present = worker.endpoint();
            if (present != null && !present.isConnected()) {
                LOG.log(worker.isFinished() ? Level.DEBUG : Level.WARNING, "server {0}: worker {1} disconnected: {2}",
                        number, w, present.reason());
                worker.vacate();
            }
            if (!worker.unsent.isEmpty()) {
                List.copyOf(worker.unsent).forEach(due -> send(worker, due));
            }
            if (backlog.isEmpty()) {
                worker.leaveUnits(core, w);
            }
            if (worker.endpoint() != null) {
                lastSeenNs = group.transport().nanoTime();
            }
        }
        if (anyAwaited && membership == null && group.failure() == null) {
            vacateAbsent();
        }
        done = anyFinished && areWorkersDone();
        if (membership == null && Arrays.stream(workers).allMatch(worker -> worker.endpoint() == null)) {
            // The group continued without this server, perhaps because its process was stopped; workers wait for it.
            group.rejoin();
        }
    }

    /** Stops waiting for workers that never joined and are not members of the group; they may still join later. */
    private void vacateAbsent() {
        if (haveSessions(_ -> true, _ -> true)) {
            Arrays.stream(workers).filter(WorkerSession::isAwaited).forEach(WorkerSession::vacate);
        }
    }

    /** Returns whether each worker in the group, of those with some connections, has a session in some state. */
    private boolean haveSessions(Predicate<Endpoint> of, Predicate<WorkerSession> state) {
        return group.view().members().stream().filter(member -> !member.isServer())
                .map(member -> group.endpoint(member.id())).allMatch(each -> each == null || !of.test(each)
                        || Arrays.stream(workers).anyMatch(worker -> worker.endpoint() == each && state.test(worker)));
    }

    /** Returns why the run is over, or {@code null}: settings differ, or it lost a member before a worker was done. */
    private @Nullable RunEndedException over() {
        if (membership == null || mismatch != null) {
            return mismatch;
        }
        for (WorkerSession worker : workers) {
            if (worker.isFinished()) {
                return null;
            }
        }
        membership.update();
        return membership.failure();
    }

    /** Sends workers the reason why training ends; ends this server when all have it, or after a timeout. */
    private void end(RunEndedException why) {
        long now = group.transport().nanoTime();
        endingNs = endingNs == 0 ? now : endingNs;
        boolean complete = true;
        for (Endpoint each : membership != null ? membership.workerEndpoints()
                : Objects.requireNonNull(admission).endpoints(group)) {
            if (each.isConnected() && !notified.contains(each)) {
                complete &= sendFailure(each, why);
            }
        }
        if (complete || now - endingNs > group.transport().config().livenessTimeout().toNanos()) {
            failure = why;
        }
    }

    private boolean sendFailure(Endpoint to, RunEndedException why) {
        boolean sent = switch (why) {
            case PeerLostException loss -> send(to, RunMembership.message(loss));
            case SettingsMismatchException difference -> send(to, SessionMessage.Differs.of(difference));
            default -> refuse(to, String.valueOf(why.getMessage()));
        };
        if (sent) {
            notified.add(to);
        }
        return sent;
    }

    /** Sends worker 0 changes of its task with rows, and all workers a sign of progress at intervals. */
    private void reportTasks() {
        Endpoint first = workers[0].endpoint();
        RowState.Report report = first == null ? null : tasks.pollReport();
        if (first != null && report != null) {
            send(first, new SessionMessage.TaskState(RowState.Report.CODEC.encode(report)));
        }
        long now = group.transport().nanoTime();
        if ((workingNs == Long.MIN_VALUE || now - workingNs > WORKING_INTERVAL_NS) && tasks.pollProgress()) {
            workingNs = now;
            connections().forEach(to -> send(to, new SessionMessage.Working()));
        }
    }

    /** Returns the connections of the workers that have one. */
    private Stream<Endpoint> connections() {
        return Arrays.stream(workers).map(WorkerSession::endpoint).filter(Objects::nonNull);
    }

    /** Returns whether all members that are connected or connecting are servers, or workers that are done. */
    private boolean areWorkersDone() {
        if (membership == null && group.failure() != null && !group.isCoordinatorLost()) {
            return false;
        }
        int units = Objects.requireNonNull(core).units();
        return haveSessions(Endpoint::isConnected, worker -> worker.isDone(group.transport(), units));
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < SessionMessage.HEADER) {
            return;
        }
        int kind = buffer.getInt(offset + Message.KIND, Message.ORDER);
        int worker = buffer.getInt(offset + SessionMessage.SENDER, Message.ORDER);
        boolean known = worker >= 0 && worker < workers.length && workers[worker].endpoint() == from;
        if (kind < SessionMessage.KIND && known) {
            onRequest(kind, buffer, offset, length);
        } else if (kind < SessionMessage.KIND) {
            logStranger(from, worker);
        } else {
            onSessionMessage(from, worker, known, buffer, offset, length);
        }
    }

    private void onSessionMessage(Endpoint from, int worker, boolean known, DirectBuffer buffer, int offset,
            int length) {
        try {
            SessionMessage received = SessionMessage.decode(buffer, offset, length);
            if (received instanceof SessionMessage.Hello hello) {
                onHello(from, worker, hello);
            } else if (known) {
                onMessage(from, worker, received);
            } else {
                logStranger(from, worker);
            }
        } catch (IOException e) {
            LOG.log(Level.WARNING, "server {0} refused a malformed message from {1}: {2}", number, from.address(),
                    e.getMessage());
        }
    }

    private void logStranger(Endpoint from, int worker) {
        LOG.log(Level.DEBUG, "server {0} refused a message: its sender at {1} is not worker {2}", number,
                from.address(), worker);
    }

    private void onRequest(int kind, DirectBuffer buffer, int offset, int length) {
        if (!Message.isRequest(kind)) {
            LOG.log(Level.WARNING, "server {0} refused a request of an unknown kind, {1}", number, kind);
            return;
        }
        try {
            if (core == null || !backlog.isEmpty() || !core.offer(buffer, offset, length)) {
                backlog.add(buffer, offset, length);
            }
        } catch (ServerException e) {
            // This thread may be any that works for the group; run() throws the failure.
            failure = e;
        }
    }

    private void onMessage(Endpoint from, int worker, SessionMessage received) {
        WorkerSession session = workers[worker];
        switch (received) {
            case SessionMessage.RunLost m -> {
                if (membership != null) {
                    membership.onLossMessage(from, m.loss());
                }
            }
            case SessionMessage.Notes m -> storeNotes(m.step(), m.notes());
            case SessionMessage.Begin m -> {
                storeNotes(m.step(), m.notes());
                if (core != null) {
                    welcomeAll();
                }
                send(session, Due.BEGUN);
            }
            case SessionMessage.Task m -> onTask(worker, m.request());
            case SessionMessage.Goodbye _ -> send(session, Due.FAREWELL);
            case SessionMessage.FarewellConfirmed _ -> session.confirmFarewell();
            case SessionMessage.Hello _, SessionMessage.Welcome _, SessionMessage.Refused _, SessionMessage.Differs _,
                    SessionMessage.Begun _, SessionMessage.Farewell _, SessionMessage.TaskState _,
                    SessionMessage.Working _ -> LOG.log(Level.WARNING,
                    "server {0} refused a message of a server from worker {1}", number, worker);
        }
    }

    private void onTask(int worker, byte[] request) {
        if (worker != 0) {
            return;
        }
        try {
            tasks.onRequest(core, request);
        } catch (ServerException e) {
            failure = e;
        } catch (IOException | RuntimeException e) {
            LOG.log(Level.WARNING, "server {0} refused a malformed task: {1}", number, e);
        }
    }

    private void storeNotes(long step, Map<String, String> newNotes) {
        if (step > notedStep) {
            notedStep = step;
            notes = newNotes;
        }
    }

    private void welcomeAll() {
        for (WorkerSession worker : workers) {
            send(worker, Due.WELCOME);
        }
    }

    /** Sends a message to a worker if it is connected; under back-pressure {@link #doWork} sends it later. */
    private void send(WorkerSession worker, Due due) {
        Endpoint to = worker.endpoint();
        if (to == null) {
            return;
        }
        boolean sent = send(to, switch (due) {
            case WELCOME -> new SessionMessage.Welcome(Objects.requireNonNull(core).holdsEarlier(), process, notes);
            case BEGUN -> new SessionMessage.Begun();
            case FAREWELL -> new SessionMessage.Farewell();
        });
        if (!sent) {
            worker.unsent.add(due);
            return;
        }
        worker.unsent.remove(due);
        if (due == Due.FAREWELL) {
            worker.finish(group.transport().nanoTime());
        }
    }

    /** Sends a message; returns false if the link has no room for it. */
    private boolean send(Endpoint to, SessionMessage what) {
        message.wrap(what.encode(number));
        return to.send(message, 0, message.capacity()) != Endpoint.BACK_PRESSURED;
    }

    /** Collects the parts of a worker's plan, and admits the worker when the plan is complete. */
    private void onHello(Endpoint from, int worker, SessionMessage.Hello hello) {
        try {
            byte[] whole = plans.add(from, hello);
            if (whole != null) {
                admit(from, worker, whole);
            }
        } catch (IOException e) {
            refuse(from, String.valueOf(e.getMessage()));
        }
    }

    private void admit(Endpoint from, int worker, byte[] bytes) {
        Plan decoded;
        RunSettings settings;
        try {
            Opening opening = Opening.CODEC.decode(bytes);
            settings = opening.settings();
            decoded = Plan.decode(opening.plan());
        } catch (IOException | RuntimeException e) {
            refuse(from, "the plan is malformed: " + e.getMessage());
            return;
        }
        if (admission == null) {
            if (number >= decoded.servers()) {
                refuse(from, "the plan has " + decoded.servers() + " servers, but this is server " + number
                        + "; set the number of servers in the workers' builders");
                return;
            }
            workers = Stream.generate(WorkerSession::new).limit(decoded.workers()).toArray(WorkerSession[]::new);
            admission = new Admission(decoded, worker, settings, group.view());
            if (decoded.consistency() instanceof Consistency.Synchronous) {
                // A worker that leaves early, even with a goodbye, is missed by the others.
                membership = new RunMembership(group, decoded.workers(), decoded.servers(), Member::isServer);
            }
        }
        RunEndedException refusal = admission.refusal(worker, settings, decoded);
        if (refusal != null) {
            if (refusal instanceof SettingsMismatchException differs
                    && (membership != null || admission.isFounder(from))) {
                // A process that joined later ends alone, unless all workers have to wait for it. The others hear the
                // reason first: they would hear the goodbye of a worker that is refused before.
                mismatch = mismatch == null ? differs : mismatch;
                end(mismatch);
            }
            if (!notified.contains(from)) {
                sendFailure(from, refusal);
            }
            return;
        }
        DistributedException over = membership == null ? null : membership.failure();
        if (over != null) {
            sendFailure(from, over);
            return;
        }
        WorkerSession session = workers[worker];
        switch (session.claim(from, group.transport(), membership != null)) {
            case ACCEPTED -> { }
            case DEFERRED -> {
                return;
            }
            case REFUSED -> {
                refuse(from, "another process is worker " + worker + (membership != null ? ", and no process can "
                        + "replace it in synchronous training; start all processes again from a checkpoint"
                        : ", and it is alive; give each worker a number of its own"));
                return;
            }
        }
        session.assign(from);
        lastSeenNs = group.transport().nanoTime();
        if (core != null) {
            send(session, Due.WELCOME);
        }
    }

    /** Sends why a worker is refused; returns false if the link has no room for it. */
    private boolean refuse(Endpoint to, String why) {
        boolean sent = send(to, new SessionMessage.Refused(why));
        if (sent) {
            LOG.log(Level.WARNING, "server {0} refused a worker: {1}", number, why);
        }
        return sent;
    }
}
