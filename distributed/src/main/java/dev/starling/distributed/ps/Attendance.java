package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.transport.Endpoint;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * Who was there when a run began in which everybody waits for everybody. It ends for all when one of them is lost, even
 * where the group goes on without that one; who comes later is no part of it. The first loss is the one that counts.
 */
final class Attendance implements AutoCloseable {
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    /** Bytes of rank and time, before the text. */
    private static final int LOSS = 12;

    private final Group group;
    private final View first;
    /** By rank; {@code null} for this process, and for those that were not reached. */
    private final List<Endpoint> endpoints = new ArrayList<>();
    private final Predicate<Endpoint> mayLeave;
    private final Runnable unlisten;
    private volatile View seen;
    /** When the group first let go of a member by itself; 0 if it has not. */
    private volatile long droppedNs;
    private volatile DistributedException failure;

    /**
     * Begins; to be used under the group's lock.
     *
     * @param least members that the run needs
     * @param mayLeave who is not missed if it closes its connection properly: done, for all that is known here
     */
    Attendance(Group group, int least, Predicate<Endpoint> mayLeave) {
        this.group = group;
        this.mayLeave = mayLeave;
        first = group.view();
        seen = first;
        for (Member member : first.members()) {
            endpoints.add(group.endpoint(member.id()));
        }
        if (first.world() < least) {
            failure = new DistributedException("synchronous training needs all its " + least + " workers and servers"
                    + " from the beginning, but only " + first.world() + " are in epoch " + first.epoch()
                    + "; begin when all are there");
        }
        look();
        unlisten = group.onChange(this::look);
    }

    /** Returns what ended the run, or {@code null}. Any thread may ask. */
    DistributedException failure() {
        if (failure == null && (group.failure() != null || group.view() != seen || droppedNs != 0)) {
            group.locked(this::look);
        }
        return failure;
    }

    /** Looks who is missing; to be used under the group's lock. */
    void look() {
        seen = group.view();
        if (failure == null && group.isEnded()) {
            failure = group.failure();
        }
        Endpoint lost = null;
        for (int rank = 0; failure == null && rank < endpoints.size(); rank++) {
            Endpoint each = endpoints.get(rank);
            boolean isThere = each == null || each.isConnected() || each.state() == Endpoint.State.CONNECTING;
            if (!isThere && !(each.receivedGoodbye() && mayLeave.test(each)) && !mayYetBeExplained(each)
                    && (lost == null || each.lastReceivedNs() < lost.lastReceivedNs())) {
                // Of several the one that was heard of last may have ended because of the other.
                lost = each;
            }
        }
        if (lost != null) {
            lose(lost);
        }
    }

    /** Counts as lost who is waited for and has gone; to be used under the group's lock. */
    void miss(Endpoint endpoint) {
        if (!mayYetBeExplained(endpoint)) {
            lose(endpoint);
        }
    }

    /**
     * Tells whether a new epoch has closed the connection to a member so lately that others may yet say of whose loss
     * it ended: what it said itself may have been on its way.
     */
    private boolean mayYetBeExplained(Endpoint endpoint) {
        if (endpoint.state() != Endpoint.State.CLOSED) {
            return false;
        }
        long now = group.transport().nanoTime();
        droppedNs = droppedNs == 0 ? now : droppedNs;
        return now - droppedNs < group.transport().config().livenessTimeout().toNanos() / 2;
    }

    private void lose(Endpoint endpoint) {
        int rank = rank(endpoint);
        if (rank >= 0) {
            PeerLostException cause = seen == first ? group.gaveUp(first.members().get(rank).id()) : null;
            if (cause != null) {
                lose(cause);
                return;
            }
            String reason = endpoint.state() == Endpoint.State.CLOSED ? "the group goes on without it"
                    : endpoint.reason();
            lose(new PeerLostException(rank, Duration.ofNanos(group.transport().nanoTime() - endpoint.lastReceivedNs()),
                    reason + "; who takes steps together ends with it, and may go on from a checkpoint"));
        }
    }

    /** Counts as lost whom a message of another names; to be used under the group's lock. */
    void lose(Endpoint from, DirectBuffer said, int offset, int length) {
        if (length < LOSS) {
            return;
        }
        int rank = said.getInt(offset, ORDER);
        long unheardNs = said.getLong(offset + 4, ORDER);
        // The coordinator's is -1. Who came later has no say.
        if (rank >= -1 && rank < endpoints.size() && unheardNs >= 0 && rank(from) >= 0) {
            lose(new PeerLostException(rank, Duration.ofNanos(unheardNs), rank(from),
                    said.getStringWithoutLengthUtf8(offset + LOSS, length - LOSS)));
        }
    }

    /** Writes what {@link #lose(Endpoint, DirectBuffer, int, int)} reads; returns where it ends. */
    static int write(PeerLostException loss, MutableDirectBuffer message, int offset) {
        byte[] text = loss.getMessage().getBytes(StandardCharsets.UTF_8);
        message.putInt(offset, loss.rank(), ORDER);
        message.putLong(offset + 4, loss.unheard().toNanos(), ORDER);
        message.putBytes(offset + LOSS, text);
        return offset + LOSS + text.length;
    }

    private void lose(DistributedException loss) {
        failure = failure == null ? loss : failure;
    }

    /** Returns a member's rank when the run began, or -1. */
    int rank(Endpoint endpoint) {
        return endpoints.indexOf(endpoint);
    }

    /** Returns the ways to all others that were there; to be used under the group's lock. */
    List<Endpoint> others() {
        return endpoints.stream().filter(each -> each != null).toList();
    }

    /** Looks no more. */
    @Override
    public void close() {
        unlisten.run();
    }
}
