package dev.starling.distributed.ps.worker;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.Work;
import dev.starling.distributed.collective.call.Task;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Strategies;
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
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A worker's requests to its servers. When a server returns after a loss, the client repeats all requests that the
 * server has not answered. The training thread makes requests and waits; replies are processed under the group's lock.
 */
public final class Client {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final Duration CHECK_INTERVAL = Duration.ofMillis(200);
    /** A wait that ends later than this was that of a stopped process. */
    private static final long STOPPED_NS = 1_000_000_000;
    private static final Duration JOB_INTERVAL = Duration.ofMillis(50);

    public final ServerLink[] servers;

    private final Membership group;
    private final int worker;
    private final int workers;
    private final boolean synchronous;
    private final SecureRandom random;
    /** {@code null} before {@link #open}, and unless training is synchronous. */
    private volatile @Nullable RunMembership membership;
    /** The view in which the servers were looked up, if all were connected then. */
    private @Nullable View connected;
    private volatile int awaited;
    /** What ended the run, or {@code null}. */
    private volatile @Nullable RunEndedException failure;
    /** Whether servers may have received gradients of a step that is not complete. */
    private boolean stepping;
    /** Whether a step was abandoned, so that no requests are opened or answered any more. Under the lock. */
    private boolean abandoned;
    /** {@code null} before a server has sent any. */
    private volatile @Nullable Map<String, String> furthest;
    /** The last job, or {@code null} before the first. */
    private volatile @Nullable RowJob job;
    /** When a server last reported progress of a task with rows, during which it may not reply. */
    private volatile long workingNs = Long.MIN_VALUE;

    /** Creates a link for each server of a plan; the client sends nothing before {@link #open}. */
    public Client(Membership group, int worker, Plan plan, RunSettings settings, boolean synchronous,
            SecureRandom random) {
        this.group = group;
        this.worker = worker;
        this.workers = plan.workers();
        this.synchronous = synchronous;
        this.random = random;
        byte[] encoded = Opening.CODEC.encode(new Opening(plan.encode(), settings));
        servers = new ServerLink[plan.servers()];
        for (int s = 0; s < servers.length; s++) {
            servers[s] = new ServerLink(s, worker, encoded, group.transport()::nanoTime);
        }
    }

    /** Adds a table to all links, after the blocks; returns its parts by server. Called before {@link #open}. */
    List<TablePart> partsOf(Plan plan, Plan.Table table) {
        List<TablePart> parts = new ArrayList<>();
        for (ServerLink server : servers) {
            parts.add(new TablePart(server, server.units.size(), plan, table, random));
            server.units.add(parts.getLast());
        }
        return parts;
    }

    /** Starts to receive messages; in synchronous training after the membership epoch has started. */
    public void open() {
        Strategies.begin(group, "ps");
        while (!group.awaitLocked(this::begin, group.config().timeout())) {
            DistributedException why = group.failure();
            if (why != null) {
                throw why;
            }
            // The epoch has started since the last look.
        }
    }

    private boolean begin() {
        if (synchronous) {
            if (group.failure() != null && !group.isEnded()) {
                return false;
            }
            membership = new RunMembership(group, workers, servers.length, _ -> true);
        }
        group.channel(Message.CHANNEL, this::onMessage);
        return true;
    }

    /**
     * Stops receiving. A worker that ends because of a loss first sends the loss to all servers; otherwise they would
     * take this worker for the lost one.
     */
    public void close() {
        if (membership != null && membership.failure() instanceof PeerLostException loss && !group.isEnded()) {
            SessionMessage message = RunMembership.message(loss);
            group.awaitLocked(() -> {
                boolean sent = true;
                for (ServerLink server : servers) {
                    sent &= server.sendLoss(message);
                }
                return sent;
            }, CHECK_INTERVAL);
        }
        group.channel(Message.CHANNEL, null);
        if (membership != null) {
            membership.close();
        }
    }

    // ---- requests ----

    /** Sends server 0, which keeps the run's notes, a message that it answers. */
    public void askFirst(SessionMessage message) {
        group.locked(() -> servers[0].ask(message));
    }

    /** Sends server 0 a message that has no reply. */
    public void notifyFirst(SessionMessage message) {
        group.locked(() -> servers[0].send(message));
    }

    /** Notifies every server that this worker is done; each answers with a farewell. */
    public void askForFarewell() {
        group.locked(() -> {
            for (ServerLink server : servers) {
                server.ask(new SessionMessage.Goodbye());
            }
        });
    }

    /**
     * If servers may have received a part of the present step, or requests are open, ends the run and sends nothing
     * more: the data of requests are about to be freed, and servers do not take back what they have applied. Servers
     * still report about a job with rows, which may complete.
     *
     * @param begun whether gradients are on their way to requests
     */
    public void abandonStep(boolean begun) {
        group.locked(() -> {
            if (begun || stepping || awaited > 0) {
                abandoned = true;
                for (ServerLink server : servers) {
                    server.units.forEach(UnitRequest::abandon);
                }
                failure = failure != null ? failure : new DistributedException("worker " + worker + " failed in a step "
                        + "of which servers may have received some gradients; resume from a checkpoint");
            }
        });
    }

    /** Opens a request of one kind for each unit, and sends as much as the links accept. */
    public void ask(Collection<? extends UnitRequest> units, int kind) {
        group.locked(() -> {
            if (!abandoned) {
                units.forEach(unit -> awaited += unit.ask(kind) ? 1 : 0);
                stepping |= !units.isEmpty() && (kind == Message.PUSH || kind == Message.PUSH_ROWS);
                pump();
            }
        });
        group.wake();
    }

    /** Returns the notes of the worker that is furthest ahead, or {@code null} if none have arrived. */
    public @Nullable Map<String, String> furthest() {
        return furthest;
    }

    /** Sends a job to the servers that have not finished it. Safe from any thread. */
    public void ask(RowJob newJob) {
        group.locked(() -> {
            job = newJob;
            pump();
            for (ServerLink server : servers) {
                byte[] request = newJob.request(server.number);
                if (request != null) {
                    server.send(new SessionMessage.Task(request));
                }
            }
        });
    }

    // ---- waiting ----

    /** Works until a job has reached a state. */
    public void await(RowJob newJob, BooleanSupplier reached, String what) {
        while (!reached.getAsBoolean()) {
            long passNs = nanoTime();
            ask(newJob);
            group.await(() -> reached.getAsBoolean() || failure != null || isOver(), JOB_INTERVAL);
            long sinceNs = newJob.idleSinceNs(passNs, JOB_INTERVAL);
            throwIfOver();
            if (isTimedOut(sinceNs) && !reached.getAsBoolean()) {
                throw timeout(what);
            }
        }
    }

    long nanoTime() {
        return group.transport().nanoTime();
    }

    /** Returns for how long this process was stopped, as its servers may have been, in a wait of at most a duration. */
    long stoppedNs(long sinceNs, Duration atMost) {
        long lateNs = nanoTime() - sinceNs - atMost.toNanos();
        return lateNs > STOPPED_NS ? lateNs : 0;
    }

    /** Returns whether the group's timeout has passed since a moment. */
    boolean isTimedOut(long sinceNs) {
        return nanoTime() - sinceNs > group.config().timeout().toNanos();
    }

    /** Returns how long the group waits. */
    Duration timeout() {
        return group.config().timeout();
    }

    /** Returns the workers of a synchronous run. */
    Group peers() {
        return Objects.requireNonNull(membership).workers();
    }

    /** Works until a collective of the workers is done; {@code what} completes "waited ..." in the error message. */
    void await(Work work, String what) {
        boolean inTime = group.patience().await(time -> group.awaitLocked(() -> {
            pump();
            return work.isDone() || isOver();
        }, time), timeout(), () -> "the other workers, " + what);
        throwIfOver();
        try {
            if (!inTime && work instanceof Task task) {
                task.abortAfter(timeout());
            }
            work.await(Duration.ZERO);
        } catch (DistributedException e) {
            throw explain(e, what);
        }
    }

    /** Returns why the run ends, of which the failure of a collective may be a consequence. */
    DistributedException explain(DistributedException failed, String what) {
        group.await(this::isOver, group.transport().config().livenessTimeout());
        throwIfOver();
        return new DistributedException("worker " + worker + " waited " + what + ": " + failed.getMessage(), failed);
    }

    private void throwIfOver() {
        // Members leave because of a difference of settings, which therefore precedes their loss.
        if (failure instanceof SettingsMismatchException) {
            throw failure;
        }
        RunMembership present = membership;
        DistributedException ended = present == null ? null : present.failure();
        if (ended != null) {
            throw ended;
        }
        if (failure != null) {
            throw failure;
        }
        if (group.isEnded()) {
            throw Objects.requireNonNull(group.failure());
        }
    }

    private void pump() {
        boolean all = true;
        for (ServerLink server : servers) {
            if (!server.isConnected() || group.view() != connected) {
                connect(server);
            }
            all &= server.isConnected();
            Endpoint missed = server.endpoint;
            if (membership != null && missed != null && server.isMissed()) {
                membership.reportMissing(missed);
            }
            server.pump();
        }
        connected = all ? group.view() : null;
    }

    /** Connects to the member that is this server; of several, which one has replaced, the one that joined last. */
    private void connect(ServerLink server) {
        List<Member> members = group.view().members();
        for (int rank = members.size() - 1; rank >= 0; rank--) {
            Endpoint endpoint = group.endpoint(members.get(rank).id());
            if (members.get(rank).role() instanceof Role.Server role && role.number() == server.number
                    && endpoint != null && endpoint.isConnected()) {
                server.connect(endpoint);
                return;
            }
        }
    }

    private boolean isComplete() {
        if (abandoned || awaited > 0) {
            return false;
        }
        for (ServerLink server : servers) {
            if (!server.isAnswered()) {
                return false;
            }
        }
        return true;
    }

    /** Works until servers have answered all requests; {@code what} completes "waited ..." in the error message. */
    public void await(String what) {
        long begin = nanoTime();
        long warnNs = group.patience().first().toNanos();
        while (!isComplete()) {
            long passNs = nanoTime();
            group.awaitLocked(() -> {
                // Sends what a link has refused because of back-pressure.
                pump();
                return isComplete() || failure != null || isOver();
            }, CHECK_INTERVAL);
            begin += stoppedNs(passNs, CHECK_INTERVAL);
            throwIfOver();
            rejoinIfExcluded();
            long since = Math.max(begin, workingNs);
            if (isTimedOut(since) && !isComplete()) {
                throw timeout(what);
            }
            if (nanoTime() - since > warnNs) {
                group.patience().warn(Duration.ofNanos(nanoTime() - since), group.config().timeout(),
                        "servers, " + what + ": " + describeServers());
                warnNs *= 2;
            }
        }
    }

    /** Works until servers have answered all gradients of a step, which is complete then. */
    public void awaitStep() {
        await("for the weights after a step");
        stepping = false;
    }

    /** Rejoins the group if it continued without this worker, perhaps because the worker's process was stopped. */
    private void rejoinIfExcluded() {
        group.locked(() -> {
            if (!synchronous && Arrays.stream(servers).noneMatch(ServerLink::isConnected)) {
                group.rejoin();
            }
        });
    }

    /** Returns whether no reply can arrive any more. A worker reaches servers also while a new epoch forms. */
    boolean isOver() {
        RunMembership present = membership;
        return group.isEnded() || present != null && present.failure() != null;
    }

    private DistributedException timeout(String what) {
        for (ServerLink server : servers) {
            Endpoint endpoint = server.endpoint;
            if (endpoint != null && server.isMissed()) {
                Duration silent = Duration.ofNanos(group.transport().nanoTime() - endpoint.lastReceivedNs());
                return new PeerLostException(workers + server.number, silent, "it is " + server
                        + ", and did not return within " + Durations.text(timeout()));
            }
        }
        return new DistributedException("worker " + worker + " waited " + Durations.text(timeout()) + " " + what + ": "
                + describeServers());
    }

    private String describeServers() {
        return Arrays.stream(servers).map(ServerLink::toString).collect(Collectors.joining("; "));
    }

    // ---- under the group's lock ----

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < SessionMessage.HEADER) {
            return;
        }
        int kind = buffer.getInt(offset + Message.STATUS, Message.ORDER);
        if (kind < SessionMessage.KIND) {
            onReply(kind, buffer, offset, length);
            return;
        }
        int number = buffer.getInt(offset + SessionMessage.SENDER, Message.ORDER);
        if (number < 0 || number >= servers.length) {
            return;
        }
        try {
            onMessage(from, servers[number], SessionMessage.decode(buffer, offset, length));
        } catch (IOException e) {
            LOG.log(Level.WARNING, "worker {0} refused a malformed message of server {1}: {2}", worker, number,
                    e.getMessage());
        }
        servers[number].pump();
    }

    private void onMessage(Endpoint from, ServerLink server, SessionMessage message) throws IOException {
        switch (message) {
            case SessionMessage.Welcome m -> {
                if (server.hasLostState(m.process(), m.continues())) {
                    LOG.log(Level.WARNING, "server {0} was restarted without its state, and updates that it had "
                            + "acknowledged are lost: it continues with the weights of the first worker that "
                            + "rejoins it; to make servers keep their state, give them a directory "
                            + "(ServerConfig.in, or --server-data)", server.number);
                }
                furthest = m.notes().isEmpty() ? furthest : m.notes();
                server.onWelcome();
            }
            case SessionMessage.Refused m -> failure = new DistributedException("server " + server.number
                    + " refused worker " + worker + ": " + m.reason());
            case SessionMessage.Differs m -> failure = m.exception();
            case SessionMessage.TaskState m -> {
                RowJob present = job;
                if (present != null) {
                    present.onReport(server.number, m.report());
                }
            }
            case SessionMessage.RunLost m -> {
                if (membership != null) {
                    membership.onLossMessage(from, m.loss());
                }
            }
            case SessionMessage.Working _ -> workingNs = nanoTime();
            case SessionMessage.Begun _ -> server.onBegun();
            case SessionMessage.Farewell _ -> server.onFarewell();
            case SessionMessage.Hello _, SessionMessage.Notes _, SessionMessage.Begin _, SessionMessage.Goodbye _,
                    SessionMessage.FarewellConfirmed _, SessionMessage.Task _ -> LOG.log(Level.WARNING,
                    "worker {0} refused a message of a worker from server {1}", worker, server.number);
        }
    }

    private void onReply(int kind, DirectBuffer buffer, int offset, int length) {
        if (length < Message.REPLY_HEADER) {
            return;
        }
        if (kind == Message.NOT_FINITE) {
            failure = new DistributedException("server " + buffer.getInt(offset + Message.SERVER, Message.ORDER)
                    + " refused a gradient of worker " + worker + " that is infinite or NaN, or too large for its "
                    + "rule; find the first operation that is not finite with Tape.detectAnomalies");
        } else {
            onUnitReply(buffer, offset, length);
        }
    }

    private void onUnitReply(DirectBuffer buffer, int offset, int length) {
        int number = buffer.getInt(offset + Message.SERVER, Message.ORDER);
        int index = buffer.getInt(offset + Message.REPLY_UNIT, Message.ORDER);
        if (number < 0 || number >= servers.length || index < 0) {
            return;
        }
        ServerLink server = servers[number];
        if (index < server.units.size() && server.units.get(index).onReply(buffer, offset, length)) {
            awaited--;
        }
        server.pump();
    }
}
