package dev.starling.distributed;

import dev.starling.distributed.collective.Engine;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import dev.starling.transport.Transport;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;

/**
 * The processes that train together, as one of them sees it. An epoch is a time without change of members; in each, the
 * members have ranks from 0 without gaps. When one is lost, everything under way ends with a
 * {@link PeerLostException} on every rank; a group whose {@link Coordinator} re-forms then goes on with
 * {@link #reform}.
 *
 * <pre>{@code
 * try (Group group = Group.join(GroupConfig.of(TransportConfig.of("aeron", secret), coordinator))) {
 *     group.collectives().barrier().await(Duration.ofSeconds(10));
 * }
 * }</pre>
 *
 * <p>Safe for use by several threads, except that collectives must be begun in the same order on all ranks.
 */
public final class Group implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** How often there is a look at the network while all that is to be done is done in shared memory. */
    private static final long NETWORK_EVERY_NS = 20_000;
    /** How often a coordinator that is lost is asked to take this process in again. */
    private static final long REJOIN_EVERY_NS = 100_000_000;
    /** Most time for saying goodbye. */
    private static final Duration LEAVING = Duration.ofSeconds(1);

    private final GroupConfig config;
    private final Transport transport;
    private final Progress progress;
    private volatile Outbox coordinator;
    private final Links links;
    private final Handlers handlers = new Handlers();
    private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
    private volatile Phase phase = Phase.JOINING;
    private volatile View view = new View(0, List.of());
    private volatile Collectives collectives;
    private volatile Engine engine;
    private volatile DistributedException failure;
    private volatile boolean coordinatorLost;
    private Runnable companion = () -> { };
    private long ownId;
    /** This process in the view. */
    private volatile Member self;
    private long networkNs;
    private long rejoinedNs;
    private volatile boolean alwaysFirst = true;
    private boolean rejoining;
    private boolean readySent;
    private boolean closed;

    private enum Phase { JOINING, CONNECTING, RUNNING, BROKEN, ENDED }

    private Group(Transport transport, GroupConfig config, boolean background) {
        this.config = config;
        this.transport = transport;
        links = new Links(transport);
        transport.onMessage(this::take);
        transport.onPut((from, immediate) -> {
            Member member = links.member(from);
            if (engine != null && member != null) {
                engine.told(member.rank(), immediate);
            }
        });
        transport.onConnection(new ConnectionHandler() {
            @Override
            public void onAccepted(Endpoint endpoint) {
                links.greeted(endpoint);
            }

            @Override
            public void onLost(Endpoint endpoint) {
                Group.this.lost(endpoint);
            }
        });
        coordinator = ask(Rendezvous.resolve(config.coordinator(), config.joining()));
        progress = new Progress(transport, this::work, this::isBusy, background,
                "starling-group-" + transport.address());
    }

    /**
     * Joins a group, and waits until it is complete.
     *
     * @throws DistributedException if it does not come together in time, or refuses this process; says why
     * @throws dev.starling.transport.TransportException if the transport cannot be opened
     */
    public static Group join(GroupConfig config) {
        return join(config, _ -> { });
    }

    /** As {@link #join(GroupConfig)}; {@code begun} is handed the group before it is complete, to {@link #abort} it. */
    public static Group join(GroupConfig config, Consumer<Group> begun) {
        return join(new Group(Transport.open(config.transport()), config, true), begun);
    }

    /**
     * Joins a group over a transport, which the group then owns.
     *
     * @param background whether a thread of the group's own works while no caller waits; without, as in a simulation,
     *     callers that compute for long call {@link #doWork} now and then
     */
    public static Group join(Transport transport, GroupConfig config, boolean background) {
        return join(new Group(transport, config, background), _ -> { });
    }

    private static Group join(Group group, Consumer<Group> begun) {
        try {
            begun.accept(group);
            group.awaitRunning(0, group.config.joining());
            return group;
        } catch (RuntimeException e) {
            group.close();
            throw e;
        }
    }

    private Outbox ask(String address) {
        Outbox asked = new Outbox(transport.connect(address, new byte[0]));
        asked.send(Channels.CONTROL, new Control.Join(transport.address(), config.host(), config.wish()));
        return asked;
    }

    private void awaitRunning(long after, Duration atMost) {
        boolean[] ran = new boolean[1];
        boolean there = progress.await(() -> {
            // It may have ended again by now, which the next who uses it learns.
            ran[0] |= phase == Phase.RUNNING && view.epoch() > after;
            return ran[0] || phase == Phase.ENDED || coordinator.endpoint().state() == Endpoint.State.REFUSED
                    || phase != Phase.RUNNING && coordinatorLost;
        }, atMost);
        if (ran[0]) {
            return;
        }
        if (failure != null && phase == Phase.ENDED) {
            throw failure;
        }
        Endpoint endpoint = coordinator.endpoint();
        if (endpoint.state() == Endpoint.State.REFUSED) {
            throw new DistributedException("cannot join: " + endpoint.reason());
        }
        if (coordinatorLost) {
            throw new PeerLostException(-1, Duration.ofNanos(transport.nanoTime() - endpoint.lastReceivedNs()),
                    endpoint.reason() + (failure == null ? "" : "; and " + failure.getMessage()));
        }
        throw new DistributedException((there ? "the group changed again" : "waited " + atMost) + " while "
                + (phase == Phase.JOINING ? endpoint.isConnected() ? "the coordinator at " + endpoint.address()
                + " gathers the members" : "there is no answer from a coordinator at " + endpoint.address()
                + ": " + endpoint.reason()
                : "the members of epoch " + view.epoch() + " connect: " + links.unreached()));
    }

    /** Returns how this process joined. */
    public GroupConfig config() {
        return config;
    }

    /** Returns this process's rank in the present epoch, from 0. */
    public int rank() {
        return self.rank();
    }

    /** Returns whether this process has had rank 0 in all epochs that it belonged to. */
    public boolean isAlwaysFirst() {
        return alwaysFirst;
    }

    /** Returns the number of members in the present epoch. */
    public int world() {
        return view.world();
    }

    /** Returns the number of the present epoch, from 1. */
    public long epoch() {
        return view.epoch();
    }

    /** Returns who belongs in the present epoch. */
    public View view() {
        return view;
    }

    /** Returns this process. */
    public Member self() {
        return self;
    }

    /** Returns the transport; to be used under {@link #locked} only. */
    public Transport transport() {
        return transport;
    }

    /** Returns the collectives of the present epoch. */
    public Collectives collectives() {
        check();
        return collectives;
    }

    /** Returns the connection to a member, or {@code null}; to be used under {@link #locked} only. */
    public Endpoint endpoint(long id) {
        return links.get(id);
    }

    /**
     * Sets who takes messages of a channel; see {@link Channels}. Handlers run under {@link #locked}. The first one is
     * given what members that were faster have sent already.
     */
    public void channel(int number, MessageHandler handler) {
        locked(() -> handlers.set(number, handler));
    }

    /**
     * Adds somebody who is told, under {@link #locked}, when the view or the connection to a member has changed.
     *
     * @return what takes it away again, from any thread, even while it is told; it is not told any more thereafter
     */
    public Runnable onChange(Runnable listener) {
        locked(() -> listeners.add(listener));
        return () -> locked(() -> listeners.remove(listener));
    }

    /** Runs something while no other thread uses the transport. */
    public void locked(Runnable action) {
        progress.locked(action);
    }

    /** Works until something holds, or the time is over; returns whether it holds. */
    public boolean await(BooleanSupplier condition, Duration atMost) {
        return progress.await(condition, atMost);
    }

    /** Does some of the group's work, if no other thread is at it. */
    public int doWork() {
        return progress.doWork();
    }

    /** Tells the background thread that there is something to do. */
    public void wake() {
        progress.wake();
    }

    /**
     * Throws what ended the present epoch, if anything did.
     *
     * @throws PeerLostException if a member was lost
     * @throws MembershipChangedException if others joined or left
     */
    public void check() {
        if (phase != Phase.RUNNING) {
            throw failure != null ? failure : new DistributedException("the group is closed");
        }
    }

    /** Returns whether no epoch will follow: the group has ended, or this process was excluded or has left. */
    public boolean isEnded() {
        return phase == Phase.ENDED;
    }

    /** Returns what ended the present epoch, or {@code null}. */
    public DistributedException failure() {
        return phase == Phase.RUNNING ? null : failure;
    }

    /**
     * Waits for the next epoch after one ended.
     * @throws DistributedException if there is none: the group ends with a loss, or the coordinator is lost too
     */
    public void reform(Duration atMost) {
        long[] after = new long[1];
        // View and phase change one after the other: between the two, the epoch to come would be taken for the one
        // that ended.
        locked(() -> after[0] = view.epoch() - (phase == Phase.RUNNING || phase == Phase.CONNECTING ? 1 : 0));
        awaitRunning(after[0], atMost);
    }

    /** Returns whether the coordinator was lost; the present epoch may go on nevertheless. */
    public boolean isCoordinatorLost() {
        return coordinatorLost;
    }

    /**
     * Asks the coordinator, if it was lost, to take this process in again, as a newcomer; at once, and again while it
     * does not answer whenever this is called. If it does, another epoch begins. Nothing else changes until then.
     */
    public void rejoin() {
        locked(() -> {
            long now = transport.nanoTime();
            if (coordinatorLost && phase != Phase.ENDED && now - rejoinedNs > REJOIN_EVERY_NS) {
                Endpoint lost = coordinator.endpoint();
                lost.close();
                rejoinedNs = now;
                rejoining = true;
                coordinatorLost = false;
                coordinator = ask(lost.address());
            }
        });
    }

    /** Ends the group for this process at once, from any thread: whoever waits here throws, with this reason. */
    public void abort(String reason) {
        locked(() -> end(new DistributedException(reason)));
    }

    private boolean isBusy() {
        Engine present = engine;
        return phase != Phase.RUNNING && phase != Phase.ENDED || present != null && present.isBusy();
    }

    private int work() {
        if (phase == Phase.RUNNING && engine.worksDirectly()) {
            long now = System.nanoTime();
            if (now - networkNs < NETWORK_EVERY_NS) {
                return engine.doWork();
            }
            networkNs = now;
        }
        int work = transport.doWork() + coordinator.doWork();
        if (!coordinatorLost && coordinator.endpoint().state() == Endpoint.State.LOST) {
            lost(coordinator.endpoint());
        }
        if (phase == Phase.CONNECTING) {
            work += connect();
        } else if (phase == Phase.RUNNING) {
            int done = engine.doWork();
            // What was sent last sets off now: nobody may come here for a while.
            work += done + (done > 0 && !engine.isBusy() ? transport.doWork() : 0);
            for (int rank = 0; links.haveAnyLeft() && phase == Phase.RUNNING && rank < view.world(); rank++) {
                breakIfAwaited(rank);
            }
        }
        return work;
    }

    private void breakIfAwaited(int rank) {
        PeerLostException loss = links.left(rank);
        if (loss != null && engine.awaits(rank)) {
            long id = view.members().get(loss.rank()).id();
            breakWith(loss);
            coordinator.send(Channels.CONTROL, Control.Suspect.of(view.epoch(), id, loss, loss.rank() == rank
                    ? "it has left" : loss.getMessage()));
        }
    }

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < Channels.HEADER) {
            return;
        }
        int channel = buffer.getInt(offset, Channels.ORDER);
        int body = offset + Channels.HEADER;
        int bodyLength = length - Channels.HEADER;
        if (channel == Channels.CONTROL) {
            control(from, buffer, body, bodyLength);
        } else if (channel == Channels.COLLECTIVES) {
            Member member = links.member(from);
            if (engine != null && member != null) {
                engine.take(member.rank(), buffer, body, bodyLength);
            }
        } else {
            handlers.take(channel, from, buffer, body, bodyLength);
        }
    }

    private void control(Endpoint from, DirectBuffer buffer, int offset, int length) {
        byte[] body = new byte[length];
        buffer.getBytes(offset, body);
        Control message;
        try {
            message = Control.decode(body);
        } catch (IOException e) {
            LOG.log(Level.WARNING, "refused a message of {0}: {1}", from.address(), e.getMessage());
            return;
        }
        if (from != coordinator.endpoint()) {
            if (message instanceof Control.Lost why) {
                links.giveUp(from, why);
            }
            return;
        }
        switch (message) {
            case Control.NewView m -> change(m.id(), m.view());
            case Control.Start m -> start(m.epoch());
            case Control.Lost m -> end(new PeerLostException(m.rank(), Duration.ofNanos(m.unheardNs()), m.reason()));
            case Control.Refused m -> end(new DistributedException(m.reason()));
            case Control.Join _, Control.Ready _, Control.Suspect _, Control.Leave _ -> { }
        }
    }

    private void change(long id, View next) {
        // A coordinator that was started anew counts from 1.
        if (phase == Phase.ENDED || next.epoch() <= view.epoch() && !rejoining) {
            return;
        }
        rejoining = false;
        if (phase == Phase.RUNNING) {
            breakWith(new MembershipChangedException("epoch " + next.epoch() + " has " + next.world()
                    + " members instead of " + view.world()));
        }
        ownId = id;
        view = next;
        self = next.byId(id);
        alwaysFirst &= rank() == 0;
        phase = Phase.CONNECTING;
        readySent = false;
        links.change(next, id);
    }

    private int connect() {
        if (readySent || !links.areReached()) {
            return 0;
        }
        // From here on, messages of members that have started already are taken.
        if (engine != null) {
            engine.close();
        }
        engine = new Engine(new EpochFabric(view, ownId, links.all(), transport), Channels.COLLECTIVES);
        collectives = new Collectives(this, engine, collectives);
        readySent = true;
        coordinator.send(Channels.CONTROL, new Control.Ready(view.epoch()));
        return 1;
    }

    private void start(long epoch) {
        if (phase == Phase.CONNECTING && epoch == view.epoch() && readySent) {
            phase = Phase.RUNNING;
            failure = null;
            listeners.forEach(Runnable::run);
        }
    }

    private void lost(Endpoint endpoint) {
        if (endpoint == coordinator.endpoint()) {
            coordinatorLost = true;
            LOG.log(rejoining ? Level.DEBUG : Level.WARNING, "the coordinator is lost: {0}; the present epoch goes on",
                    endpoint.reason());
            return;
        }
        PeerLostException loss = links.lose(endpoint);
        if (loss == null) {
            return;
        }
        if (phase == Phase.RUNNING) {
            breakWith(loss);
        }
        coordinator.send(Channels.CONTROL, Control.Suspect.of(view.epoch(), links.member(endpoint).id(), loss,
                endpoint.reason()));
        listeners.forEach(Runnable::run);
    }

    private void breakWith(DistributedException why) {
        failure = why;
        phase = Phase.BROKEN;
        if (engine != null) {
            engine.fail(why);
        }
    }

    private void end(DistributedException why) {
        if (phase != Phase.ENDED) {
            breakWith(why);
            phase = Phase.ENDED;
            listeners.forEach(Runnable::run);
        }
    }

    /** Sets what is closed after this group has left. */
    void onClose(Runnable another) {
        companion = another;
    }

    /** Returns the loss that a member said it left because of, or {@code null}; under {@link #locked} only. */
    public PeerLostException gaveUp(long id) {
        return links.given(id);
    }

    /** Leaves the group. The others go on without this process; if it leaves because of a loss, they learn of which. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        List<Outbox> last = new ArrayList<>(List.of(coordinator));
        locked(() -> {
            coordinator.send(Channels.CONTROL, new Control.Leave());
            if (phase != Phase.CONNECTING && failure instanceof PeerLostException loss && loss.rank() >= 0) {
                Control why = new Control.Lost(view.epoch(), loss.rank(), loss.unheard().toNanos(), loss.getMessage());
                for (Endpoint each : List.copyOf(links.all().values())) {
                    last.add(new Outbox(each));
                    last.getLast().send(Channels.CONTROL, why);
                }
            }
        });
        await(() -> {
            locked(() -> last.forEach(Outbox::doWork));
            return last.stream().allMatch(each -> each.isEmpty() || !each.endpoint().isConnected());
        }, LEAVING);
        progress.close();
        locked(() -> {
            end(new DistributedException("the group is closed"));
            if (engine != null) {
                engine.close();
                collectives.close();
            }
            transport.close();
        });
        companion.run();
    }
}
