package dev.starling.distributed.ps.wire;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.Endpoint;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The members of a synchronous run: those of the membership epoch in which it started. The loss of any of them ends the
 * run on all, even if the group continues without the lost member; processes that join the group later do not belong to
 * the run. The first loss is the one reported.
 */
public final class RunMembership implements AutoCloseable {
    /** Bytes of rank and time, before the text. */
    private static final int LOSS = 12;

    private final Membership group;
    private final View first;
    /** By rank; {@code null} for this process, and for members without a connection. */
    private final List<Endpoint> endpoints = new ArrayList<>();
    private final Predicate<Endpoint> mayLeave;
    private final Runnable removeListener;
    private volatile View seen;
    /** When a new epoch first closed the connection to a member; 0 if none has. */
    private volatile long droppedNs;
    private volatile DistributedException failure;

    /**
     * Takes the group's present members. The caller holds the group's lock.
     *
     * @param minSize number of members that the run needs
     * @param mayLeave whether a member that closes its connection with a goodbye counts as done, not as lost
     */
    public RunMembership(Membership group, int minSize, Predicate<Endpoint> mayLeave) {
        this.group = group;
        this.mayLeave = mayLeave;
        first = group.view();
        seen = first;
        for (Member member : first.members()) {
            endpoints.add(group.endpoint(member.id()));
        }
        if (first.world() < minSize) {
            failure = new DistributedException("synchronous training needs all of its " + minSize + " workers and "
                    + "servers from the start, but membership epoch " + first.epoch() + " has only " + first.world()
                    + " members; start training when all have joined");
        }
        update();
        removeListener = group.onChange(this::update);
    }

    /** Returns what ended the run, or {@code null}. Safe from any thread. */
    public DistributedException failure() {
        if (failure == null && (group.failure() != null || group.view() != seen || droppedNs != 0)) {
            group.locked(this::update);
        }
        return failure;
    }

    /** Checks all members for losses. The caller holds the group's lock. */
    public void update() {
        seen = group.view();
        if (failure == null && group.isEnded()) {
            failure = group.failure();
        }
        Endpoint lost = null;
        for (int rank = 0; failure == null && rank < endpoints.size(); rank++) {
            Endpoint each = endpoints.get(rank);
            boolean alive = each == null || each.isConnected() || each.state() == Endpoint.State.CONNECTING;
            if (!alive && !(each.receivedGoodbye() && mayLeave.test(each)) && !mayStillBeExplained(each)
                    && (lost == null || each.lastReceivedNs() < lost.lastReceivedNs())) {
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
    public void onLossMessage(Endpoint from, DirectBuffer message, int offset, int length) {
        if (length < LOSS) {
            return;
        }
        int rank = message.getInt(offset, Message.ORDER);
        long silentNs = message.getLong(offset + 4, Message.ORDER);
        // Rank -1 is the coordinator. Messages of processes that joined later are ignored.
        if (rank >= -1 && rank < endpoints.size() && silentNs >= 0 && rank(from) >= 0) {
            fail(new PeerLostException(rank, Duration.ofNanos(silentNs), rank(from),
                    message.getStringWithoutLengthUtf8(offset + LOSS, length - LOSS)));
        }
    }

    /** Writes the body that {@link #onLossMessage} reads; returns the offset of its end. */
    public static int write(PeerLostException loss, MutableDirectBuffer message, int offset) {
        byte[] text = loss.getMessage().getBytes(StandardCharsets.UTF_8);
        message.putInt(offset, loss.rank(), Message.ORDER);
        message.putLong(offset + 4, loss.silentFor().toNanos(), Message.ORDER);
        message.putBytes(offset + LOSS, text);
        return offset + LOSS + text.length;
    }

    private void fail(DistributedException loss) {
        failure = failure == null ? loss : failure;
    }

    /** Returns a member's rank at the start of the run, or -1. */
    int rank(Endpoint endpoint) {
        return endpoints.indexOf(endpoint);
    }

    /** Returns the connections to all other members of the run. The caller holds the group's lock. */
    public List<Endpoint> others() {
        return endpoints.stream().filter(each -> each != null).toList();
    }

    /** Stops watching the group. */
    @Override
    public void close() {
        removeListener.run();
    }
}
