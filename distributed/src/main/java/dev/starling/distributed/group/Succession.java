package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.QuorumLostException;
import dev.starling.distributed.View;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Finds another coordinator when that of the group is lost, or has lost the quorum: the reachable member of the lowest
 * rank opens one and announces it to the others, which follow it. Meanwhile the member also tries the address of the
 * former coordinator, and those of the other members, which know the present one. The present epoch continues.
 *
 * <p>A member without a reachable majority opens none, and no coordinator begins an epoch without a quorum, so two
 * coordinators at a time do no harm. Used under the group's lock, except for the methods that any thread may call.
 */
final class Succession implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long NEVER = Long.MAX_VALUE;
    private static final int TICKS_PER_TIMEOUT = 16;

    private final Transport transport;
    private final CoordinatorLink coordinator;
    private final Links links;
    private final GroupConfig config;
    private final Herald herald;
    private final BooleanSupplier isRunning;
    private final long livenessNs;
    private volatile View started = new View(0, List.of());
    private volatile View seen = started;
    private long ownId;
    /** This member's coordinator; {@code null} if it has none. */
    private SuccessorProvider.@Nullable Successor candidate;
    /** The best announcement of another member, and when that member sent it. */
    private Control.@Nullable Successor announced;
    private long announcedNs;
    /** The announcement that this member follows; {@code null} if it follows none, but an address it was sent to. */
    private Control.@Nullable Successor followed;
    /** A connection to a process that may know the coordinator, or be it; {@code null} for none. */
    private @Nullable Endpoint probe;
    private long probedNs;
    private int probes;
    /** The address of the last coordinator that has confirmed this member. */
    private String former = "";
    /** When this member lost its coordinator; {@link #NEVER} if it has one. */
    private volatile long lostNs = NEVER;
    private long tickNs;
    /** When this member could not open a coordinator; {@link #NEVER} if that has not happened. */
    private long failedNs = NEVER;

    /** Creates the search; {@code isRunning} returns whether this member is in a running epoch. */
    Succession(Transport transport, CoordinatorLink coordinator, Links links, GroupConfig config,
            BooleanSupplier isRunning) {
        this.transport = transport;
        this.coordinator = coordinator;
        this.links = links;
        this.config = config;
        this.isRunning = isRunning;
        herald = new Herald(transport);
        livenessNs = transport.config().livenessTimeout().toNanos();
    }

    /** The coordinator has proposed an epoch. */
    void onNewView(View next, long id) {
        seen = next;
        ownId = id;
        onConfirmed();
    }

    /** An epoch has started, or continues with another coordinator. */
    void onStarted(View view) {
        started = view;
        onConfirmed();
    }

    private void onConfirmed() {
        former = coordinator.endpoint().address();
        herald.add(former);
        lostNs = NEVER;
        announced = null;
        followed = null;
        closeProbe();
        if (candidate != null && !candidate.address().equals(former)) {
            closeCandidate();
        } else if (candidate != null) {
            CoordinatorAddress.publish(config.coordinator(), former);
        }
    }

    /** Returns whether another coordinator takes the place of a lost one. Any thread may call this. */
    boolean isEnabled() {
        Control.Rules rules = coordinator.rules();
        // Before the first epoch has started, the former coordinator may still begin it without this member.
        return started.epoch() > 0 && rules.reforms() && !(rules.quorum() instanceof Quorum.None);
    }

    /** Returns whether this member looks for a coordinator. */
    private boolean isActive() {
        return isEnabled() && (!coordinator.isJoined() || coordinator.noQuorum() != null);
    }

    /**
     * Returns whether the coordinator is lost or has no quorum, and no other one has taken its place within two
     * liveness timeouts. Any thread may call this.
     */
    boolean isStranded() {
        long since = lostNs;
        return isEnabled() ? since != NEVER && transport.nanoTime() - since > 2 * livenessNs
                : coordinator.isLost() || coordinator.hasLostQuorum();
    }

    /**
     * Returns why this process has waited in vain for an epoch.
     *
     * @param rank of this process; -1 if it has not been in an epoch
     * @param cause that ended the present epoch, or {@code null}
     * @param end how the wait has ended
     */
    DistributedException failure(int rank, @Nullable DistributedException cause, String end) {
        DistributedException why = coordinator.failure(rank, cause);
        if (why != null) {
            return isEnabled() && isStranded() && !links.areMostReached()
                    ? new QuorumLostException(rank, links.reachedCount(), seen.world()) : why;
        }
        Endpoint endpoint = coordinator.endpoint();
        return new DistributedException(end + " while " + (rank >= 0
                ? "the members of epoch " + seen.epoch() + " connect: " + links.describeUnreached()
                : endpoint.isConnected() ? "the coordinator at " + endpoint.address() + " waits for other members"
                : "no coordinator answered at " + endpoint.address() + ": " + endpoint.reason()));
    }

    /**
     * Returns whether this member may act for the group: it reaches a coordinator with a quorum, or the greater part of
     * the members, and has heard of most of the epoch that started last so recently that these cannot have begun
     * another one without it.
     */
    boolean hasQuorum() {
        return coordinator.rules().quorum() instanceof Quorum.None || coordinator.noQuorum() == null
                && (coordinator.isJoined() || links.areMostReached()) && links.haveMostBeenHeard(started,
                        livenessNs * 3 / 4);
    }

    /** Handles the announcement of another member, which another one may have passed on. */
    void onAnnouncement(@Nullable Member from, Control.Successor message) {
        long sentNs = transport.nanoTime() - Math.max(0, message.ageNs());
        SuccessorProvider.Successor own = candidate;
        if (from == null || !isEnabled() || !isFresh(sentNs)
                || own != null && message.address().equals(own.address())) {
            return;
        }
        Control.Successor known = validAnnouncement();
        boolean same = known != null && message.rank() == known.rank() && message.seen() == known.seen();
        if (known == null || (same ? sentNs > announcedNs : isBefore(message, known))) {
            tickNs = known != null && message.address().equals(known.address()) ? tickNs : 0;
            announced = message;
            announcedNs = sentNs;
        }
    }

    private boolean isFresh(long sentNs) {
        return transport.nanoTime() - sentNs < livenessNs;
    }

    /**
     * Returns the best announcement, if it is recent and its member may still be reached: that of a member that has
     * ended must keep no other from opening a coordinator.
     */
    private Control.@Nullable Successor validAnnouncement() {
        Control.Successor known = announced;
        if (known == null || !isFresh(announcedNs)) {
            return null;
        }
        boolean same = known.seen() == seen.epoch() && known.rank() >= 0 && known.rank() < seen.world();
        return !same || links.mayBeReached(seen.members().get(known.rank())) ? known : null;
    }

    /** Returns whether one announcement precedes another: that of the later epoch, and then of the lower rank. */
    private static boolean isBefore(Control.Successor one, Control.Successor other) {
        int order = Long.compare(other.seen(), one.seen());
        return order != 0 ? order < 0 : one.rank() < other.rank();
    }

    /** Handles the answer of a process that knows the coordinator. */
    void onMoved(Endpoint from, String address) {
        if (address.equals(coordinator.endpoint().address())) {
            return;
        }
        if (from == coordinator.endpoint()) {
            if (coordinator.release()) {
                followed = null;
                coordinator.follow(address, ownId == 0 ? null : rejoin(address));
            }
        } else if (from == probe) {
            closeProbe();
            if (isActive() && !coordinator.isPending() && coordinator.release()) {
                followed = null;
                coordinator.follow(address, rejoin(address));
            }
        }
    }

    /**
     * Handles a connection that another process opened. A process that looks for the coordinator has no id to greet
     * with, and gets its address.
     */
    void onAccepted(Endpoint from) {
        if (from.greeting().length > 0) {
            links.onAccepted(from);
        } else if (seen.epoch() > 0 && coordinator.isJoined()) {
            new Outbox(from).send(new Control.Moved(coordinator.endpoint().address()));
        } else {
            from.close();
        }
    }

    int doWork(boolean isEnded) {
        SuccessorProvider.Successor own = candidate;
        int work = own == null ? 0 : own.doWork();
        if (isEnded || !isActive()) {
            return work + (own == null || isEnded ? 0 : herald.doWork(own.address()));
        }
        long now = transport.nanoTime();
        if (lostNs == NEVER) {
            lostNs = now;
            tickNs = 0;
        }
        if (tickNs != 0 && now - tickNs < livenessNs / TICKS_PER_TIMEOUT) {
            return work;
        }
        tickNs = now;
        if (candidate == null && isCandidate(now)) {
            open();
        }
        if (candidate != null) {
            links.sendToAll(announcement(candidate));
        }
        Control.Successor known = validAnnouncement();
        if (known != null && links.isLarge()) {
            links.sendToAll(new Control.Successor(known.address(), known.rank(), known.started(), known.seen(),
                    now - announcedNs));
        }
        follow(now);
        probe(now);
        return work + 1;
    }

    /** Returns whether this member should open a coordinator: it is the first that can, or the first ones did not. */
    private boolean isCandidate(long now) {
        Control.NoQuorum vote = coordinator.noQuorum();
        if (!links.areMostReached() || vote != null && coordinator.isJoined()
                && vote.present() >= links.reachedCount()) {
            return false;
        }
        int before = 0;
        for (Member member : seen.members()) {
            if (member.id() == ownId) {
                break;
            }
            before += links.isReached(member) ? 1 : 0;
        }
        return (failedNs == NEVER || now - failedNs > livenessNs) && now - lostNs >= before * livenessNs
                && validAnnouncement() == null;
    }

    private void open() {
        try {
            SuccessorProvider provider = ServiceLoader.load(SuccessorProvider.class,
                    SuccessorProvider.class.getClassLoader()).findFirst().orElseThrow(() -> new DistributedException(
                    "no " + SuccessorProvider.class.getName() + " is registered; keep META-INF/services when you merge "
                            + "jars"));
            candidate = provider.open(transport.another(), coordinator.rules(), started, seen, ownRank(), id -> {
                Member member = seen.byId(id);
                return member != null && links.mayBeReached(member);
            });
            LOG.log(Level.INFO, "rank {0} takes the place of the lost coordinator, at {1}", ownRank(),
                    candidate.address());
        } catch (RuntimeException e) {
            LOG.log(Level.WARNING, "this process cannot take the place of the lost coordinator: " + e.getMessage(), e);
            failedNs = transport.nanoTime();
        }
    }

    private Control.Successor announcement(SuccessorProvider.Successor of) {
        return new Control.Successor(of.address(), ownRank(), started.epoch(), seen.epoch(), 0);
    }

    private int ownRank() {
        Member self = seen.byId(ownId);
        return self == null ? 0 : self.rank();
    }

    /**
     * Follows the best coordinator that is known, unless this member waits for the answer of one that is no worse. Two
     * members that open coordinators at the same time would otherwise wait for each other, each at its own.
     */
    private void follow(long now) {
        coordinator.giveUpAfter(livenessNs);
        SuccessorProvider.Successor own = candidate;
        Control.Successor best = validAnnouncement();
        if (own != null && (best == null || isBefore(announcement(own), best))) {
            best = announcement(own);
        }
        if (best == null || best.address().equals(coordinator.endpoint().address())
                && coordinator.endpoint().state() != Endpoint.State.LOST) {
            return;
        }
        if ((!coordinator.isPending() || isBetterThanFollowed(best)) && coordinator.release()) {
            coordinator.follow(best.address(), rejoin(best));
            followed = best;
        }
    }

    /** Returns whether an announcement precedes the one that this member follows, or its member has opened another. */
    private boolean isBetterThanFollowed(Control.Successor best) {
        Control.Successor last = followed;
        return last != null && (isBefore(best, last) || best.rank() == last.rank() && best.seen() == last.seen()
                && !best.address().equals(last.address()));
    }

    private Control.Rejoin rejoin(String address) {
        return rejoin(new Control.Successor(address, 0, 0, 0, 0));
    }

    private Control.Rejoin rejoin(Control.Successor to) {
        List<View> newer = new ArrayList<>();
        if (started.epoch() > to.started()) {
            newer.add(started);
        }
        if (seen.epoch() > Math.max(to.seen(), started.epoch())) {
            newer.add(seen);
        }
        return new Control.Rejoin(ownId, started.epoch(), seen.epoch(), isRunning.getAsBoolean() && links.isWhole(),
                newer, coordinator.request());
    }

    /** Asks the former coordinator and the members of the last epoch, one after the other, for the coordinator. */
    private void probe(long now) {
        Endpoint current = probe;
        if (current != null && current.isConnected() && current.address().equals(former) && !coordinator.isPending()
                && !coordinator.isJoined() && coordinator.release()) {
            probe = null;
            followed = null;
            coordinator.follow(current, rejoin(former));
            return;
        }
        if (coordinator.isPending() || current != null && now - probedNs < livenessNs / 2) {
            return;
        }
        closeProbe();
        List<String> addresses = new ArrayList<>();
        if (!coordinator.isJoined()) {
            addresses.add(former);
        }
        for (Member member : seen.members()) {
            if (!links.isReached(member)) {
                addresses.add(member.address());
            }
        }
        if (!addresses.isEmpty()) {
            probedNs = now;
            probe = transport.connect(addresses.get(probes++ % addresses.size()), new byte[0]);
        }
    }

    /** Releases a connection to no member that has ended. */
    void onLost(Endpoint endpoint) {
        if (endpoint == probe) {
            closeProbe();
        } else if (endpoint.greeting().length == 0) {
            endpoint.close();
        }
    }

    private void closeProbe() {
        if (probe != null) {
            probe.close();
            probe = null;
        }
    }

    private void closeCandidate() {
        herald.close();
        if (candidate != null) {
            candidate.close();
            candidate = null;
        }
    }

    /** Returns whether this member's coordinator, if it has one, is needed no more. */
    boolean isDone() {
        return candidate == null || candidate.isDone();
    }

    @Override
    public void close() {
        closeCandidate();
    }
}
