package dev.starling.distributed.group;

import dev.starling.distributed.GroupConfig;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.lang.System.Logger.Level;
import org.jspecify.annotations.Nullable;

/** A process's connection to the coordinator of its group. Used under the group's lock, but for {@link #isLost}. */
final class CoordinatorLink {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    /** How often {@link #rejoin} contacts a lost coordinator. */
    private static final long REJOIN_INTERVAL_NS = 100_000_000;

    private final Transport transport;
    private final GroupConfig config;
    private volatile Outbox outbox;
    private volatile State state = State.JOINED;
    private long rejoinedNs;
    private Control.Rules rules = Control.Rules.UNKNOWN;
    /** What the coordinator has reported about a missing quorum; {@code null} if nothing is missing. */
    private volatile Control.@Nullable NoQuorum noQuorum;
    /** When the quorum was missing first. */
    private volatile long noQuorumNs;

    private enum State {
        /** The process has joined, or waits to be admitted for the first time. */
        JOINED,
        LOST,
        /** The process has lost the coordinator, and waits to be admitted as a new member. */
        REJOINING
    }

    /** Requests the coordinator to admit this process. */
    CoordinatorLink(Transport transport, GroupConfig config) {
        this.transport = transport;
        this.config = config;
        join(CoordinatorAddress.resolve(config.coordinator(), config.joinTimeout()));
    }

    private void join(String address) {
        outbox = new Outbox(transport.connect(address, new byte[0]));
        send(new Control.Join(transport.address(), config.host(), config.preferredRank(), config.role()));
    }

    Outbox outbox() {
        return outbox;
    }

    Endpoint endpoint() {
        return outbox.endpoint();
    }

    void send(Control message) {
        outbox.send(message);
    }

    int doWork() {
        if (endpoint().state() == Endpoint.State.LOST) {
            onLost();
        }
        return outbox.doWork();
    }

    /** Returns whether the coordinator is lost. Any thread may call this. */
    boolean isLost() {
        return state == State.LOST;
    }

    /** Returns whether this process is connected to the coordinator that admitted it. Any thread may call this. */
    boolean isJoined() {
        return state == State.JOINED;
    }

    boolean isRefused() {
        return endpoint().state() == Endpoint.State.REFUSED;
    }

    void onLost() {
        if (state != State.LOST) {
            LOG.log(state == State.REJOINING ? Level.DEBUG : Level.WARNING, "the coordinator is lost: {0}; the present "
                    + "epoch continues", endpoint().reason());
            state = State.LOST;
        }
    }

    /** Requests a lost coordinator to admit this process again, unless that was requested a moment ago. */
    void rejoin() {
        long now = transport.nanoTime();
        if (state == State.LOST && now - rejoinedNs > REJOIN_INTERVAL_NS) {
            Endpoint lost = endpoint();
            lost.close();
            rejoinedNs = now;
            state = State.REJOINING;
            join(lost.address());
        }
    }

    /** Stores that the coordinator reaches too few members. */
    void onNoQuorum(Control.NoQuorum message) {
        if (noQuorum == null) {
            noQuorumNs = transport.nanoTime();
        }
        noQuorum = message;
    }

    /** Returns what the coordinator has reported about a missing quorum, or {@code null}. Any thread may call this. */
    Control.@Nullable NoQuorum noQuorum() {
        return noQuorum;
    }

    /** Returns whether a quorum has been missing for as long as a member may be silent. Any thread may call this. */
    boolean hasLostQuorum() {
        return noQuorum != null
                && transport.nanoTime() - noQuorumNs > transport.config().livenessTimeout().toNanos();
    }

    /** Returns the rules of the group, as the coordinator has sent them. */
    Control.Rules rules() {
        return rules;
    }

    void onAdmitted(Control.Rules newRules) {
        rules = newRules;
        noQuorum = null;
    }

    /**
     * Returns whether an epoch follows another one, and if so counts this process as admitted. A restarted coordinator
     * counts epochs from 1 again.
     */
    boolean admits(long epoch, long last) {
        boolean admitted = epoch > last || state == State.REJOINING;
        state = admitted ? State.JOINED : state;
        return admitted;
    }
}
