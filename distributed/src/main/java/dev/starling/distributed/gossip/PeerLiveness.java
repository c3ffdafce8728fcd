package dev.starling.distributed.gossip;

import dev.starling.distributed.Member;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.Endpoint;
import java.lang.System.Logger.Level;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Tracks which of the other workers are reachable. Used under the group's lock, except for the methods that any thread
 * may call. A worker that has lost all others asks the coordinator to let it rejoin.
 */
final class PeerLiveness {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Membership group;
    private final List<Peer> peers;
    /** The number of reachable {@link #peers}. */
    private volatile int reachable;
    private volatile boolean cutOff;
    /** Whether any other member is absent, and whether any peer was lost that had not finished. */
    private boolean anyAbsent;
    private boolean anyLost;
    /** The number of steps after which this worker was {@link #cutOff}. */
    private long cutOffStep;

    PeerLiveness(Membership group, List<Peer> peers) {
        this.group = group;
        this.peers = peers;
    }

    /** Begins a run. Members that this worker does not reach are absent from the start. */
    void begin() {
        cutOff = false;
        anyLost = false;
        anyAbsent = false;
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            anyAbsent |= member.id() != group.self().id() && (endpoint == null || !endpoint.isConnected());
        }
    }

    /** Returns the number of reachable workers. Any thread may call this. */
    int reachable() {
        return reachable;
    }

    /** Returns whether no other worker is reachable, though they did not finish. Any thread may call this. */
    boolean isCutOff() {
        return cutOff;
    }

    /** Returns the id of the reachable member of lowest rank, this one included. */
    long lowestReachable() {
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null && endpoint.isConnected()) {
                return member.id();
            }
            if (member.id() == group.self().id()) {
                break;
            }
        }
        return group.self().id();
    }

    /** Returns the peer at an endpoint, or {@code null} if there is none. */
    @Nullable Peer find(Endpoint endpoint) {
        for (int i = 0; i < peers.size(); i++) {
            if (peers.get(i).endpoint == endpoint) {
                return peers.get(i);
            }
        }
        return null;
    }

    /** Checks the connections of all peers. */
    void update() {
        int connected = 0;
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (peer.phase != Peer.Phase.ABSENT && !peer.endpoint.isConnected()) {
                peer.become(Peer.Phase.ABSENT);
                boolean left = peer.endpoint.receivedGoodbye();
                anyAbsent = true;
                anyLost |= !left;
                LOG.log(left ? Level.DEBUG : Level.WARNING,
                        "rank {0}: rank {1} {2}: {3}; training continues without it", group.rank(),
                        peer.member.rank(), left ? "has left" : "is lost", peer.endpoint.reason());
            }
            connected += peer.phase == Peer.Phase.ABSENT ? 0 : 1;
        }
        reachable = connected;
    }

    /**
     * Checks the connections of all peers, removes those that are absent, and rejoins the group if the coordinator is
     * lost. Acquires the lock itself.
     */
    void maintain(long steps) {
        group.locked(() -> {
            update();
            for (int i = peers.size() - 1; i >= 0; i--) {
                // The update that it sent before it was lost still counts.
                if (peers.get(i).phase == Peer.Phase.ABSENT && peers.get(i).inbox != Peer.Inbox.FRESH) {
                    peers.remove(i).close();
                }
            }
        });
        if (reachable == 0 && !cutOff && (anyLost || anyAbsent && group.isCoordinatorLost())) {
            cutOff = true;
            cutOffStep = steps;
            LOG.log(Level.WARNING, "rank {0} is cut off: it cannot reach any other worker; it continues to train and"
                    + " mixes again as soon as one is reachable", group.rank());
        } else if (cutOff && reachable > 0) {
            cutOff = false;
            LOG.log(Level.INFO, "rank {0} is no longer cut off, after {1} steps: it reaches {2} other workers",
                    group.rank(), steps - cutOffStep, reachable);
        }
        if (anyAbsent) {
            group.rejoin();
        }
    }
}
