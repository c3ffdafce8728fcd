package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.collective.call.Driver;
import dev.starling.distributed.collective.call.Patience;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.errors.Durations;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import dev.starling.transport.Transport;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A group as the strategies use it: besides what users see, the transport, the connections to the members, channels for
 * messages of their own, and what has happened to members and coordinator.
 *
 * <p>Safe for use by several threads, except that all ranks must start collectives in the same order.
 */
public final class Membership extends EpochGroup implements Driver {
    /** How often the group polls the network while a collective runs in shared memory only. */
    private static final long NETWORK_INTERVAL_NS = 20_000;
    /** How long {@link #close} waits for its last messages to be sent. */
    private static final Duration LEAVE_TIMEOUT = Duration.ofSeconds(1);

    private final GroupConfig config;
    private final Transport transport;
    private final Progress progress;
    private final Patience patience;
    private final CoordinatorLink coordinator;
    private final Links links;
    private final Succession succession;
    private final SubGroups subGroups;
    final Strategies strategies = new Strategies(this);
    private final Handlers handlers = new Handlers();
    private final Inbox inbox = new Inbox();
    private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
    private volatile Phase phase = Phase.JOINING;
    private Runnable closeListener = () -> { };
    private long networkNs;
    private volatile boolean alwaysFirst = true;
    private boolean closed;

    private Membership(Transport transport, GroupConfig config, boolean background) {
        this.config = config;
        this.transport = transport;
        patience = new Patience(config.timeout(), transport.config().livenessTimeout(),
                () -> "rank " + rank() + " of " + world());
        links = new Links(transport, config.maxMesh());
        subGroups = new SubGroups(this, links);
        transport.onMessage(this::onMessage);
        transport.onPut((from, immediate) -> {
            onPut(from, immediate);
            subGroups.onPut(from, immediate);
        });
        transport.onConnection(new ConnectionHandler() {
            @Override
            public void onAccepted(Endpoint endpoint) {
                succession.onAccepted(endpoint);
            }

            @Override
            public void onLost(Endpoint endpoint) {
                Membership.this.onLost(endpoint);
            }
        });
        coordinator = new CoordinatorLink(transport, config);
        succession = new Succession(transport, coordinator, links, config, () -> phase == Phase.RUNNING);
        progress = new Progress(transport, this::work, this::isBusy, background,
                "starling-group-" + transport.address(), Progress.MAX_RELIEF_NS);
    }

    /** Joins a group over a transport of its own, and waits until the group is complete. */
    public static Membership join(GroupConfig config) {
        return join(Transport.open(config.transport()), config, true, _ -> { });
    }

    /** As {@link Group#join(Transport, GroupConfig, boolean)}; {@code onCreated} gets the group before it waits. */
    public static Membership join(Transport transport, GroupConfig config, boolean background,
            Consumer<Group> onCreated) {
        Runnable close = transport::close;
        try {
            Membership group = new Membership(transport, config, background);
            close = group::close;
            onCreated.accept(group);
            group.awaitRunning(0, group.config.joinTimeout());
            return group;
        } catch (Throwable e) {
            close.run();
            throw e;
        }
    }

    /** Returns the membership behind a user's group. */
    public static Membership of(Group group) {
        if (group instanceof Membership membership) {
            return membership;
        }
        throw new DistributedException("strategies need a group that Group.join has returned, got " + group);
    }

    private void awaitRunning(long after, Duration atMost) {
        boolean[] ran = new boolean[1];
        boolean decided = progress.await(() -> {
            // The epoch may have ended again by now; the next call that uses it reports that.
            ran[0] |= phase == Phase.RUNNING && view().epoch() > after;
            return ran[0] || phase == Phase.ENDED || coordinator.isRefused() || coordinator.isUnanswered()
                    || phase != Phase.RUNNING && succession.isStranded();
        }, atMost);
        if (ran[0]) {
            return;
        }
        if (failure != null && phase == Phase.ENDED) {
            throw failure;
        }
        throw progress.get(() -> succession.failure(phase == Phase.JOINING ? -1 : rank(), failure,
                decided ? "the group changed again" : "waited " + Durations.text(atMost)));
    }

    @Override
    public GroupConfig config() {
        return config;
    }

    /** Returns whether this process has had rank 0 in all epochs that it belonged to. */
    public boolean isAlwaysFirst() {
        return alwaysFirst;
    }

    /** Returns the transport; use it under {@link #locked} only, except to {@linkplain Transport#allocate allocate}. */
    public Transport transport() {
        return transport;
    }

    @Override
    public Group split(Function<Member, ?> colour) {
        return split(colour, true);
    }

    /** As {@link #split(Function)}; unless {@code admits}, a process that joins does not end the sub-group's epoch. */
    public Group split(Function<Member, ?> colour, boolean admits) {
        SubGroup part = new SubGroup(this, colour, admits);
        locked(() -> subGroups.form(part));
        return part;
    }

    SubGroups subGroups() {
        return subGroups;
    }

    /** Returns the connection to a member, or {@code null}; use it under {@link #locked} only. */
    public @Nullable Endpoint endpoint(long id) {
        return links.get(id);
    }

    /** Connects to all members, also in a large group, in this epoch and later ones. Waits; all members call it. */
    public void connectToAll() {
        if (view().world() > config.maxMesh()) {
            locked(links::useAll);
            awaitLocked(() -> phase != Phase.RUNNING || links.areReached(), config.timeout());
        }
    }

    /**
     * Sets the handler of a channel's messages; see {@link Channels}. Handlers run under {@link #locked}. The first
     * handler of a channel also receives the messages that arrived before it was set.
     */
    public void channel(int number, @Nullable MessageHandler handler) {
        locked(() -> handlers.set(number, handler));
    }

    /**
     * Adds a listener that runs, under {@link #locked}, when the view or the connection to a member has changed.
     *
     * @return removes the listener; safe from any thread, also from the listener itself. The listener does not run
     *     again after that
     */
    public Runnable onChange(Runnable listener) {
        locked(() -> listeners.add(listener));
        return () -> locked(() -> listeners.remove(listener));
    }

    /** Runs an action under the group's lock: no other thread uses the transport meanwhile. */
    @Override
    public void locked(Runnable action) {
        progress.locked(action);
    }

    @Override
    public boolean await(BooleanSupplier condition, Duration atMost) {
        return progress.await(condition, atMost);
    }

    /** As {@link #await}, for a condition that is evaluated under the group's lock, and that may act. */
    public boolean awaitLocked(BooleanSupplier condition, Duration atMost) {
        Supplier<Boolean> evaluation = condition::getAsBoolean;
        return await(() -> progress.get(evaluation), atMost);
    }

    @Override
    public int doWork() {
        return progress.doWork();
    }

    @Override
    public Patience patience() {
        return patience;
    }

    @Override
    public void wake() {
        progress.wake();
    }

    /**
     * Throws the failure that ended the present epoch, if it has ended.
     *
     * @throws PeerLostException if a member was lost
     * @throws MembershipChangedException if members joined or left
     */
    @Override
    public void check() {
        locked(() -> {
            if (phase != Phase.RUNNING) {
                throw failure != null ? failure : new DistributedException("the group is closed");
            }
        });
    }

    /** Returns whether no epoch will follow: the group has ended, or this process was excluded or has left. */
    public boolean isEnded() {
        return phase == Phase.ENDED;
    }

    /** Returns the failure that ended the present epoch, or {@code null}. */
    public @Nullable DistributedException failure() {
        return phase == Phase.RUNNING ? null : failure;
    }

    @Override
    public void reform(Duration atMost) {
        // Read under the lock: between the changes of view and phase, the next epoch would be taken for the ended one.
        awaitRunning(progress.get(() -> epoch() - (phase == Phase.RUNNING || phase.isForming() ? 1 : 0)), atMost);
    }

    /** Returns whether the coordinator is lost; the present epoch may continue without it. */
    public boolean isCoordinatorLost() {
        return coordinator.isLost();
    }

    /**
     * Requests the coordinator, if it is lost, to admit this process again, as a new member. For a process that misses
     * members that it needs: perhaps the group continues without it. Returns immediately; call it repeatedly until the
     * coordinator answers, which starts a new epoch. Nothing changes before that.
     */
    public void rejoin() {
        locked(() -> {
            if (phase != Phase.ENDED && !succession.isEnabled()) {
                coordinator.rejoin();
            }
        });
    }

    /**
     * Returns whether this process reaches the coordinator and a quorum of the members, or without the coordinator more
     * than half of the present epoch's members, or half with rank 0. Otherwise others may continue without it.
     */
    public boolean hasQuorum() {
        return progress.get(() -> (phase != Phase.ENDED || links.haveOthersLeft()) && succession.hasQuorum());
    }

    @Override
    public void abort(String reason) {
        locked(() -> end(new DistributedException(reason)));
    }

    private boolean isBusy() {
        return phase != Phase.RUNNING && phase != Phase.ENDED || engine != null && engine.isBusy()
                || subGroups.isBusy();
    }

    private int work() {
        if (phase == Phase.RUNNING && (engine().worksDirectly() || subGroups.worksDirectly())) {
            long now = System.nanoTime();
            if (now - networkNs < NETWORK_INTERVAL_NS) {
                return engine().doWork() + subGroups.doWork();
            }
            networkNs = now;
        }
        int work = (phase == Phase.RUNNING ? engine().begin() : 0)
                + transport.doWork() + coordinator.doWork() + succession.doWork(phase == Phase.ENDED);
        int done = subGroups.doWork();
        if (phase.isForming()) {
            work += done + connect();
        } else if (phase == Phase.RUNNING) {
            done += engine().doWork();
            // Flush the last messages: the next call may be long in coming.
            work += done + (done > 0 && !engine().isBusy() && !subGroups.isBusy() ? transport.flush() : 0);
            for (int rank = 0; links.hasDepartures() && phase == Phase.RUNNING && rank < view().world(); rank++) {
                failIfAwaited(rank);
            }
            PeerLostException unreached = links.maintain();
            if (unreached != null) {
                onLost(unreached, "it did not connect");
            }
        }
        return work;
    }

    /** Fails the epoch if a collective needs a member that has left. */
    private void failIfAwaited(int rank) {
        PeerLostException loss = links.departure(rank);
        long id = view().members().get(rank).id();
        if (loss != null && (engine().awaits(rank) || subGroups.awaits(id))) {
            failEpoch(loss);
            subGroups.onLost(id, loss);
            coordinator.send(Control.Suspect.of(view().epoch(), view().members().get(loss.rank()).id(), loss,
                    loss.rank() == rank ? "it has left" : String.valueOf(loss.getMessage())));
        }
    }

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < Channels.HEADER) {
            return;
        }
        int channel = buffer.getInt(offset, Channels.ORDER);
        int body = offset + Channels.HEADER;
        int bodyLength = length - Channels.HEADER;
        if (channel == Channels.CONTROL || channel == Channels.CONTROL_PIECES) {
            onControl(from, inbox.read(from, buffer, offset, length));
        } else if (channel == Channels.COLLECTIVES) {
            onCollectiveMessage(from, buffer, body, bodyLength);
        } else if (channel == Channels.SUB_GROUPS) {
            subGroups.onMessage(from, buffer, body, bodyLength);
        } else {
            handlers.dispatch(channel, from, buffer, body, bodyLength);
        }
    }

    private void onControl(Endpoint from, @Nullable Control message) {
        if (message == null) {
            return;
        }
        if (!coordinator.adopt(from)) {
            switch (message) {
                case Control.Lost(long epoch, LossReport loss) -> links.onReportedLoss(from, epoch, loss);
                case Control.Leave _ -> links.onLeave(from);
                case Control.Successor m -> succession.onAnnouncement(links.member(from), m);
                case Control.Moved m -> succession.onMoved(from, m.address());
                default -> { }
            }
            return;
        }
        switch (message) {
            case Control.Waiting m -> coordinator.onWaiting(m);
            case Control.NewView m -> onNewView(m.id(), m.view(), m.rules(), m.started());
            case Control.NoQuorum m -> coordinator.onNoQuorum(m);
            case Control.Start m -> onStart(m.epoch());
            case Control.Lost m -> end(m.loss().detected());
            case Control.Refused m -> end(new DistributedException(m.reason()));
            case Control.Moved m -> succession.onMoved(from, m.address());
            case Control.Join _, Control.Ready _, Control.Suspect _, Control.Leave _, Control.Rejoin _,
                    Control.Withdraw _, Control.Successor _ -> { }
        }
    }

    private void onNewView(long id, View next, Control.Rules rules, long started) {
        if (phase == Phase.ENDED || !coordinator.admits(next.epoch(), view().epoch())) {
            return;
        }
        coordinator.onAdmitted(rules);
        if (phase == Phase.RUNNING) {
            failEpoch(new MembershipChangedException("epoch " + next.epoch() + " has " + next.world()
                    + " members instead of " + view().world()));
        }
        subGroups.onNewView(next, id, started);
        take(next, id);
        alwaysFirst &= rank() == 0;
        phase = Phase.CONNECTING;
        links.onNewView(next, id);
        succession.onNewView(next, id);
    }

    private int connect() {
        if (!links.areReached() || phase == Phase.READY) {
            if (phase == Phase.CONNECTING) {
                links.overdue().forEach(coordinator::send);
            }
            return 0;
        }
        // From here on the engine receives messages of members that have already started the epoch.
        begin(this, links.fabric(view().epoch(), view(), rank()), Channels.COLLECTIVES);
        phase = Phase.READY;
        coordinator.send(new Control.Ready(view().epoch()));
        return 1;
    }

    private void onStart(long epoch) {
        if (phase == Phase.ENDED || phase == Phase.CONNECTING || epoch != view().epoch()) {
            return;
        }
        coordinator.onConfirmed();
        succession.onStarted(view());
        subGroups.onStarted(view());
        if (phase == Phase.READY) {
            phase = Phase.RUNNING;
            failure = null;
            links.onStarted();
            listeners.forEach(Runnable::run);
        }
    }

    private void onLost(Endpoint endpoint) {
        if (endpoint == coordinator.endpoint()) {
            coordinator.onLost();
            return;
        }
        PeerLostException loss = links.onLost(endpoint, phase == Phase.RUNNING);
        if (loss == null) {
            succession.onLost(endpoint);
        } else {
            onLost(loss, endpoint.reason());
        }
    }

    private void onLost(PeerLostException loss, String reason) {
        if (phase == Phase.RUNNING) {
            failEpoch(loss);
        }
        long id = view().members().get(loss.rank()).id();
        subGroups.onLost(id, loss);
        coordinator.send(Control.Suspect.of(view().epoch(), id, loss, reason));
        listeners.forEach(Runnable::run);
    }

    private void failEpoch(DistributedException why) {
        failure = why;
        phase = Phase.BROKEN;
        if (engine != null) {
            engine.fail(why);
        }
    }

    private void end(DistributedException why) {
        if (phase != Phase.ENDED) {
            failEpoch(why);
            phase = Phase.ENDED;
            subGroups.endAll(why);
            listeners.forEach(Runnable::run);
        }
    }

    /** Sets a listener that runs after this group has closed. */
    public void onClose(Runnable listener) {
        closeListener = listener;
    }

    /** Returns the loss because of which a member left, if it has sent one, or {@code null}; see {@link #locked}. */
    public @Nullable PeerLostException reportedLoss(long id) {
        return links.reportedLoss(id);
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        try (progress) {
            leave();
        } finally {
            try {
                locked(this::free);
            } finally {
                closeListener.run();
            }
        }
    }

    private void leave() {
        List<Outbox> last = new ArrayList<>(List.of(coordinator.outbox()));
        locked(() -> {
            coordinator.send(new Control.Leave());
            if (!phase.isForming() && failure instanceof PeerLostException loss && loss.rank() >= 0) {
                last.addAll(links.sendToAll(new Control.Lost(view().epoch(), LossReport.of(loss))));
            }
            last.addAll(links.sendToAll(new Control.Leave()));
        });
        awaitLocked(() -> {
            last.forEach(Outbox::doWork);
            return last.stream().allMatch(each -> each.isEmpty() || !each.endpoint().isConnected())
                    && succession.isDone();
        }, LEAVE_TIMEOUT);
    }

    /** Frees everything; closes the transport in any case. */
    private void free() {
        try (transport; succession) {
            end(new DistributedException("the group is closed"));
            subGroups.close();
            release();
        }
    }
}
