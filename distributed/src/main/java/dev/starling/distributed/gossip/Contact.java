package dev.starling.distributed.gossip;

import dev.starling.distributed.Group;
import java.lang.System.Logger.Level;
import java.util.List;

/**
 * Who of the other workers is heard. To be used under the group's lock, but for what may be asked for; a worker that
 * hears nobody any more asks to be let back in.
 */
final class Contact {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Group group;
    private final List<Peer> peers;
    /** The number of {@link #peers} that are not gone. */
    private volatile int near;
    private volatile boolean cutOff;
    /** Whether any peer is gone, and whether one is that was not done. */
    private boolean parted;
    private boolean missed;
    /** The step after which this worker was {@link #cutOff}. */
    private long cutOffAt;

    Contact(Group group, List<Peer> peers) {
        this.group = group;
        this.peers = peers;
    }

    /** Returns how many others are heard. Any thread may ask. */
    int near() {
        return near;
    }

    /** Returns whether none is heard, though they were not done. Any thread may ask. */
    boolean isCutOff() {
        return cutOff;
    }

    /** Counts one that is heard from now on. */
    void met() {
        near++;
    }

    /** Lets go of all. */
    void end() {
        near = 0;
    }

    /** Finds out who is gone. */
    void look() {
        int connected = 0;
        for (int i = 0; i < peers.size(); i++) {
            Peer peer = peers.get(i);
            if (!peer.gone && !peer.endpoint.isConnected()) {
                peer.gone = true;
                boolean left = peer.endpoint.saidGoodbye();
                parted = true;
                missed |= !left;
                LOG.log(left ? Level.DEBUG : Level.WARNING, "rank {0}: peer {1} {2}: {3}; going on without it",
                        group.rank(), peer.member.rank(), left ? "has left" : "is lost", peer.endpoint.reason());
            }
            connected += peer.gone ? 0 : 1;
        }
        near = connected;
    }

    /** Finds out who is gone, and asks for a way back to them; takes the lock itself. */
    void keep(long steps) {
        group.locked(() -> {
            look();
            for (int i = peers.size() - 1; i >= 0; i--) {
                // What it sent before it was lost counts.
                if (peers.get(i).gone && !peers.get(i).arrived) {
                    peers.remove(i).close();
                }
            }
        });
        if (near == 0 && !cutOff && (missed || parted && group.isCoordinatorLost())) {
            cutOff = true;
            cutOffAt = steps;
            LOG.log(Level.WARNING, "rank {0} is alone: it hears none of the other workers any more; it trains on, and"
                    + " mixes again as soon as one is back", group.rank());
        } else if (cutOff && near > 0) {
            cutOff = false;
            LOG.log(Level.INFO, "rank {0} is no longer alone, after {1} steps: it hears {2} other workers",
                    group.rank(), steps - cutOffAt, near);
        }
        if (parted && group.isCoordinatorLost()) {
            group.rejoin();
        }
    }
}
