package dev.starling.distributed.ps.wire;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.Endpoint;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The members of a synchronous run: those of the membership epoch in which it started. The loss of any of them ends the
 * run on all, even if the group continues without the lost member; processes that join the group later do not belong to
 * the run. The first loss is the one reported.
 */
public final class RunMembership implements AutoCloseable {
    private final Membership group;
    private final View first;
    /** By rank; {@code null} for this process, and for members without a connection. */
    private final List<@Nullable Endpoint> endpoints = new ArrayList<>();
    private final Predicate<Member> mayLeave;
    /** The workers' sub-group, if this process is one of them and all are there; otherwise {@code null}. */
    private final @Nullable Group workers;
    private final Runnable removeListener;
    private volatile View seen;
    /** When a new epoch first closed the connection to a member; 0 if none has. */
    private volatile long droppedNs;
    /** What ended the run, or {@code null}. */
    private volatile @Nullable DistributedException failure;

    /**
     * Takes the group's present members. The caller holds the group's lock.
     *
     * @param workers number of workers that the run needs; the group must have no others
     * @param servers number of servers that the run needs
     * @param mayLeave whether a member that closes its connection with a goodbye counts as done, not as lost
     */
    public RunMembership(Membership group, int workers, int servers, Predicate<Member> mayLeave) {
        this.group = group;
        this.mayLeave = mayLeave;
        first = group.view();
        seen = first;
        for (Member member : first.members()) {
            endpoints.add(group.endpoint(member.id()));
        }
        long present = first.members().stream().filter(Member::isServer).count();
        if (present < servers || first.world() - present != workers) {
            fail(new DistributedException("synchronous training needs exactly its " + workers + " workers, and its "
                    + servers + " servers, from the start, but membership epoch " + first.epoch() + " has "
                    + (first.world() - present) + " workers and " + present + " servers; start training when all have "
                    + "joined"));
        }
        this.workers = failure != null || group.self().isServer() ? null : group.split(Member::isServer, false);
        update();
        removeListener = group.onChange(this::update);
    }

    /** Returns what ended the run, or {@code null}. Safe from any thread. */
    public @Nullable DistributedException failure() {
        if (failure == null && (group.failure() != null || group.view() != seen || droppedNs != 0)) {
            group.locked(this::update);
        }
        return failure;
    }

    /** Checks all members for losses. The caller holds the group's lock. */
    public void update() {
        seen = group.view();
        if (failure == null && group.isEnded()) {
            fail(Objects.requireNonNull(group.failure()));
        }
        Endpoint lost = null;
        for (int rank = 0; failure == null && rank < endpoints.size(); rank++) {
            Endpoint each = endpoints.get(rank);
            boolean alive = each == null || each.isConnected() || each.state() == Endpoint.State.CONNECTING;
            if (!alive && !(each.receivedGoodbye() && mayLeave.test(first.members().get(rank)))
                    && !mayStillBeExplained(each) && (lost == null || each.lastReceivedNs() < lost.lastReceivedNs())) {
                // Of several lost members report the one silent longest: the others may have ended because of it.
                lost = each;
            }
        }
        if (lost != null) {
            fail(lost);
        }
    }

    /** Reports a member whose reply is awaited and whose connection is closed. The caller holds the group's lock. */
    public void reportMissing(Endpoint endpoint) {
        if (!mayStillBeExplained(endpoint)) {
            fail(endpoint);
        }
    }

    /**
     * Returns whether a new epoch closed the connection to a member so recently that a message may still arrive that
     * names the loss because of which the member ended. The member's own message may have been in flight when the
     * connection was closed.
     */
    private boolean mayStillBeExplained(Endpoint endpoint) {
        if (endpoint.state() != Endpoint.State.CLOSED) {
            return false;
        }
        long now = group.transport().nanoTime();
        droppedNs = droppedNs == 0 ? now : droppedNs;
        return now - droppedNs < group.transport().config().livenessTimeout().toNanos() / 2;
    }

    private void fail(Endpoint endpoint) {
        int rank = rank(endpoint);
        if (rank >= 0) {
            PeerLostException cause = seen == first ? group.reportedLoss(first.members().get(rank).id()) : null;
            if (cause != null) {
                fail(cause);
                return;
            }
            String reason = endpoint.state() == Endpoint.State.CLOSED ? "the group continues without it"
                    : endpoint.reason();
            fail(new PeerLostException(rank, Duration.ofNanos(group.transport().nanoTime() - endpoint.lastReceivedNs()),
                    reason + "; synchronous training ends on all members; resume from a checkpoint"));
        }
    }

    /** Handles a message in which another member names a loss. The caller holds the group's lock. */
    public void onLossMessage(Endpoint from, LossReport loss) {
        // Rank -1 is the coordinator. Messages of processes that joined later are ignored.
        if (loss.rank() >= -1 && loss.rank() < endpoints.size() && loss.silentNs() >= 0 && rank(from) >= 0) {
            fail(loss.reportedBy(rank(from)));
        }
    }

    /** Returns the message that {@link #onLossMessage} handles. */
    public static SessionMessage message(PeerLostException loss) {
        return new SessionMessage.RunLost(LossReport.of(loss));
    }

    private void fail(DistributedException loss) {
        if (failure == null) {
            failure = loss;
            if (workers != null) {
                workers.abort(String.valueOf(loss.getMessage()));
            }
        }
    }

    /** Returns a member's rank at the start of the run, or -1. */
    int rank(Endpoint endpoint) {
        return endpoints.indexOf(endpoint);
    }

    /** Returns the workers' sub-group, which ends with the run. Only on a worker, and if the run could start. */
    public Group workers() {
        return Objects.requireNonNull(workers);
    }

    /** Returns the connections to all other workers of the run. The caller holds the group's lock. */
    public List<Endpoint> workerEndpoints() {
        return first.members().stream().filter(member -> !member.isServer())
                .map(member -> endpoints.get(member.rank())).filter(Objects::nonNull).toList();
    }

    /** Stops watching the group, and leaves the workers' sub-group. */
    @Override
    public void close() {
        removeListener.run();
        if (workers != null) {
            workers.close();
        }
    }
}
