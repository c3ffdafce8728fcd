package dev.starling.distributed.gossip;

import dev.starling.distributed.Member;
import dev.starling.distributed.gossip.GossipMessage.Announcement;
import dev.starling.distributed.gossip.GossipMessage.Initial;
import dev.starling.distributed.group.Membership;
import dev.starling.nn.train.TrainingState;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * The weights with which workers begin: those of rank 0, or of the next rank if that one is lost before any worker has
 * received them.
 */
final class InitialWeights {
    private final Membership group;
    private final TrainingState state;
    private final List<Peer> peers;
    private final PeerLiveness liveness;
    /**
     * The ids of the members at the start of the run, and the run's notes at that point: founders that start late begin
     * there.
     */
    private final Set<Long> founders;
    private Map<String, String> beginning;
    private volatile boolean known;
    /** While this worker waits: id of the member that it considers the first of all that it reaches. */
    private long firstId;

    InitialWeights(Membership group, TrainingState state, List<Peer> peers, PeerLiveness liveness) {
        this.group = group;
        this.state = state;
        this.peers = peers;
        this.liveness = liveness;
        founders = group.view().members().stream().map(Member::id).collect(Collectors.toSet());
        beginning = state.notes();
        // If another member was first before, some worker may have the weights of that one.
        known = group.isAlwaysFirst();
        firstId = liveness.lowestReachable();
    }

    /** Returns whether a member belonged to the group when this worker began. */
    boolean isFounder(Member member) {
        return founders.contains(member.id());
    }

    /** Returns whether this worker has its weights. */
    boolean areKnown() {
        return known;
    }

    /** Returns whether a peer has sent them. */
    boolean haveArrived() {
        return peers.stream().anyMatch(Peer::hasInitialWeights);
    }

    /** Returns the id that this worker announces. */
    long awaitedId() {
        return known || haveArrived() ? Announcement.NONE : firstId;
    }

    /** Looks for weights; if no worker has any, this worker has to begin with its own if it is the first of all. */
    void look() {
        liveness.update();
        long now = liveness.lowestReachable();
        if (now != firstId) {
            firstId = now;
            peers.forEach(peer -> peer.due.add(Peer.Due.ANNOUNCEMENT));
        }
        peers.forEach(Peer::sendDue);
        known = !haveArrived() && isFirst(peer -> false);
    }

    /** Returns whether all reachable peers, except those that have yet to start, consider this worker the first. */
    boolean isFirstOfThoseStarted() {
        return isFirst(peer -> peer.firstId == 0);
    }

    private boolean isFirst(Predicate<Peer> exempt) {
        return firstId == group.self().id()
                && peers.stream().allMatch(p -> p.phase == Peer.Phase.ABSENT || p.firstId == firstId || exempt.test(p));
    }

    /** Begins with this worker's own weights. */
    void useOwn() {
        known = true;
        state.resume();
        beginning = state.notes();
    }

    /** Begins at the position of a peer, whose weights this worker has taken. */
    void adopt(Map<String, String> notes) {
        state.restore(notes);
        beginning = state.notes();
        known = true;
    }

    /** Returns what travels with the initial weights for a peer. */
    Initial of(Peer peer) {
        return new Initial(founders.contains(peer.member.id()) ? beginning : state.notes());
    }
}
