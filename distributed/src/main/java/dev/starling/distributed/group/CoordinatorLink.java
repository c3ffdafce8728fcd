package dev.starling.distributed.group;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.QuorumLostException;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
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
    /** Addresses of coordinators or members; the process tries one after the other until one answers. */
    private final List<String> addresses;
    /** Connections at addresses that have not answered in time, and may still answer, each with its request. */
    private final List<Outbox> attempts = new ArrayList<>();
    private int turn;
    private long triedNs;
    /** When this process was connected to one of them last, or began to try. */
    private volatile long answeredNs;
    private boolean warned;
    /** Whether this process has been in an epoch. */
    private volatile boolean admitted;
    private volatile Control.Rules rules = Control.Rules.UNKNOWN;
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
        addresses = Stream.of(CoordinatorAddress.resolve(config.coordinator(), config.existing()
                ? transport.config().livenessTimeout() : config.joinTimeout()).split(",")).map(String::strip).distinct()
                .toList();
        answeredNs = transport.nanoTime();
        triedNs = answeredNs;
        outbox = new Outbox(transport.connect(addresses.getFirst(), new byte[0]));
        send(request());
    }

    private void join(String address) {
        use(new Outbox(transport.connect(address, new byte[0])));
        send(request());
    }

    /** Waits for the answer over a connection, as a process that has not heard of the coordinator yet. */
    private void use(Outbox next) {
        triedNs = transport.nanoTime();
        outbox = next;
        state = State.JOINED;
        noQuorum = null;
    }

    /** Returns the request of a process that is no member. */
    Control.Join request() {
        return new Control.Join(transport.address(), config.host(), config.preferredRank(), config.role());
    }

    /**
     * Notifies the present coordinator that this process will follow another one; returns whether that is sent. Without
     * the message it would take the end of the connection for that of this process.
     */
    boolean release() {
        if (endpoint().isConnected()) {
            send(new Control.Withdraw());
        }
        return outbox.isEmpty() || !endpoint().isConnected();
    }

    /** Follows the coordinator at an address in place of the present one; {@code null} asks it as a new process. */
    void follow(String address, Control.@Nullable Rejoin request) {
        Endpoint last = endpoint();
        if (request == null && resume(address)) {
            last.close();
        } else {
            follow(transport.connect(address, new byte[0]), request);
        }
    }

    /** As {@link #follow(String, Control.Rejoin)}, over a connection to the coordinator. */
    void follow(Endpoint next, Control.@Nullable Rejoin request) {
        endpoint().close();
        outbox = new Outbox(next);
        noQuorum = null;
        state = request == null ? state : State.REJOINING;
        rejoinedNs = transport.nanoTime();
        triedNs = rejoinedNs;
        send(request == null ? request() : request);
    }

    /**
     * Returns whether this process waits for the answer of another coordinator, which may have a quorum. Any thread may
     * call this.
     */
    boolean isPending() {
        return state == State.REJOINING && noQuorum == null;
    }

    /** Gives up waiting for the answer of another coordinator if it has taken longer than a time. */
    void giveUpAfter(long ns) {
        if (state == State.REJOINING && transport.nanoTime() - rejoinedNs > ns) {
            state = State.LOST;
        }
    }

    /** The coordinator has confirmed that this process is a member. */
    void onConfirmed() {
        state = State.JOINED;
        noQuorum = null;
    }

    /**
     * Returns why this process waits in vain for the coordinator, or {@code null} if it does not.
     *
     * @param rank of this process, or -1
     * @param cause that ended the present epoch, or {@code null}
     */
    @Nullable DistributedException failure(int rank, @Nullable DistributedException cause) {
        if (isRefused()) {
            return new DistributedException("cannot join the group: " + endpoint().reason());
        }
        if (isUnanswered()) {
            return new DistributedException("no coordinator or member of the group answered at "
                    + String.join(" or ", addresses) + ": " + endpoint().reason() + "; the group has finished, or give "
                    + "the address of one of its members");
        }
        Control.NoQuorum vote = noQuorum;
        if (vote != null) {
            return new QuorumLostException(rank, vote.present(), vote.members());
        }
        String reason = endpoint().reason().isEmpty() ? "the one at " + endpoint().address() + " has not answered"
                : endpoint().reason();
        return state == State.JOINED ? null : new PeerLostException(-1, Duration.ofNanos(transport.nanoTime()
                - endpoint().lastReceivedNs()), reason + (cause == null ? "" : "; and " + cause.getMessage()));
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
        long now = transport.nanoTime();
        long livenessNs = transport.config().livenessTimeout().toNanos();
        answeredNs = endpoint().isConnected() ? now : answeredNs;
        if (!admitted && !warned && now - answeredNs > livenessNs) {
            warned = true;
            String reason = endpoint().reason();
            LOG.log(Level.WARNING, "no coordinator has answered yet at {0}{1}; this process waits up to {2} s",
                    String.join(" or ", addresses), reason.isEmpty() ? "" : ": " + reason,
                    config.joinTimeout().toSeconds());
        }
        if (!admitted && addresses.size() > 1) {
            tryAddresses(now, livenessNs / 8);
        }
        if (endpoint().state() == Endpoint.State.LOST) {
            onLost();
        }
        return outbox.doWork();
    }

    /** Tries the next address if none answers in time, and continues to wait for the former ones. */
    private void tryAddresses(long now, long patienceNs) {
        for (Outbox each : List.copyOf(attempts)) {
            if (each.endpoint().state() != Endpoint.State.CONNECTING && !adopt(each.endpoint())) {
                attempts.remove(each);
                close(each.endpoint());
            }
        }
        if (!endpoint().isConnected() && now - triedNs > patienceNs) {
            attempts.add(outbox);
            String next = addresses.get(++turn % addresses.size());
            if (!resume(next)) {
                join(next);
            }
        }
    }

    /** Continues with a connection to an address that is being opened already; returns whether there is one. */
    private boolean resume(String address) {
        for (Outbox each : attempts) {
            if (each.endpoint().address().equals(address) && each.endpoint().state() == Endpoint.State.CONNECTING) {
                attempts.remove(each);
                use(each);
                return true;
            }
        }
        return false;
    }

    /**
     * Returns whether a connection is that to the coordinator. The first of the addresses that answers becomes the
     * coordinator's.
     */
    boolean adopt(Endpoint from) {
        if (from == endpoint()) {
            return true;
        }
        for (Outbox each : attempts) {
            if (each.endpoint() == from && from.isConnected() && !endpoint().isConnected()) {
                attempts.remove(each);
                attempts.add(outbox);
                use(each);
                return true;
            }
        }
        return false;
    }

    private static void close(Endpoint endpoint) {
        if (endpoint.state() != Endpoint.State.CLOSED) {
            endpoint.close();
        }
    }

    /** Returns whether the coordinator is lost. Any thread may call this. */
    boolean isLost() {
        return state == State.LOST && (admitted || addresses.size() == 1);
    }

    /**
     * Returns whether this process wants to join a group that exists already, and no process has answered for a
     * liveness timeout, or longer if it has many addresses to try. Any thread may call this.
     */
    boolean isUnanswered() {
        return config.existing() && !admitted && transport.nanoTime() - answeredNs > Math.max(4, addresses.size())
                * (transport.config().livenessTimeout().toNanos() / 4);
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
            // A process that is not admitted yet tries its other addresses, or fails with this reason.
            LOG.log(admitted && state != State.REJOINING ? Level.WARNING : Level.DEBUG,
                    "the coordinator is lost: {0}; the present epoch continues", endpoint().reason());
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
            join(lost.address());
            state = State.REJOINING;
        }
    }

    /** The coordinator lets this process wait until the group is complete, or a member leaves: it has a quorum. */
    void onWaiting(Control.Waiting message) {
        LOG.log(Level.INFO, "the coordinator reports: {0}", message.missing());
        noQuorum = null;
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
        admitted = true;
        attempts.forEach(each -> close(each.endpoint()));
        attempts.clear();
        noQuorum = null;
    }

    /**
     * Returns whether an epoch follows another one, and if so counts this process as admitted. A restarted coordinator
     * counts epochs from 1 again.
     */
    boolean admits(long epoch, long last) {
        boolean follows = epoch > last || state == State.REJOINING;
        state = follows ? State.JOINED : state;
        return follows;
    }
}
