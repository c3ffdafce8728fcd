package dev.starling.distributed;

import dev.starling.errors.Durations;
import dev.starling.tensor.TensorException;
import dev.starling.transport.TransportConfig;
import java.time.Duration;

/**
 * Configuration with which a process joins a group. Immutable.
 *
 * @param transport the transport and its address
 * @param coordinator address of the coordinator, or several, separated by commas, which the process tries in turn, or
 *     {@code file:PATH} of a file that contains it. The address of a member serves, too: it knows the coordinator
 * @param preferredRank the rank that this process should get in the first epoch if possible; -1 for any
 * @param role what this process does in the group
 * @param host identity of the host: processes with equal texts can map each other's memory
 * @param joinTimeout how long {@link Group#join} waits until the group is complete; at most 365 days
 * @param timeout how long a collective, or the start of a new epoch, may take; at most 365 days
 * @param maxMesh number of members up to which every member connects to every other; in a larger group a member
 *     connects to those with which its collectives exchange messages, and to others when it first sends them something
 * @param existing whether the group exists already, so that {@link Group#join} fails if no coordinator or member has
 *     answered within a liveness timeout. Otherwise the coordinator may be started later, up to {@code joinTimeout}
 */
public record GroupConfig(TransportConfig transport, String coordinator, int preferredRank, Role role, String host,
        Duration joinTimeout, Duration timeout, int maxMesh, boolean existing) {
    /** The default of {@code maxMesh}. */
    public static final int DEFAULT_MAX_MESH = 32;

    /** A few times as many nanoseconds are still a {@code long}. */
    private static final Duration MAX_TIMEOUT = Duration.ofDays(365);

    /** Checks the timeouts. */
    public GroupConfig {
        if (joinTimeout.compareTo(MAX_TIMEOUT) > 0 || timeout.compareTo(MAX_TIMEOUT) > 0) {
            throw TensorException.argument("group", "timeouts must be at most " + Durations.text(MAX_TIMEOUT)
                    + ", got joinTimeout " + Durations.text(joinTimeout) + " and timeout " + Durations.text(timeout),
                    "correct the arguments");
        }
    }

    /** Returns a configuration of a worker on this host, with no preferred rank and timeouts of one minute. */
    public static GroupConfig of(TransportConfig transport, String coordinator) {
        return new GroupConfig(transport, coordinator, -1, new Role.Worker(), Hosts.own(), Duration.ofMinutes(1),
                Duration.ofMinutes(1), DEFAULT_MAX_MESH, false);
    }

    /** Returns a copy with another preferred rank; -1 for any. */
    public GroupConfig preferredRank(int rank) {
        return new GroupConfig(transport, coordinator, rank, role, host, joinTimeout, timeout, maxMesh, existing);
    }

    /** Returns a copy with another role. */
    public GroupConfig role(Role newRole) {
        return new GroupConfig(transport, coordinator, preferredRank, newRole, host, joinTimeout, timeout, maxMesh,
                existing);
    }

    /**
     * Returns a copy with the preferred rank and the role of a process in a group whose first ranks are workers and
     * whose other ranks are servers.
     */
    public GroupConfig place(int rank, int workers) {
        return preferredRank(rank).role(rank < workers ? new Role.Worker() : new Role.Server(rank - workers));
    }

    /** Returns a copy with another identity of the host. */
    public GroupConfig host(String name) {
        return new GroupConfig(transport, coordinator, preferredRank, role, name, joinTimeout, timeout, maxMesh,
                existing);
    }

    /** Returns a copy with another timeout for joining. */
    public GroupConfig joinTimeout(Duration newTimeout) {
        return new GroupConfig(transport, coordinator, preferredRank, role, host, newTimeout, timeout, maxMesh,
                existing);
    }

    /** Returns a copy with another timeout for collectives and new epochs. */
    public GroupConfig timeout(Duration newTimeout) {
        return new GroupConfig(transport, coordinator, preferredRank, role, host, joinTimeout, newTimeout, maxMesh,
                existing);
    }

    /** Returns a copy with another size up to which all members connect to each other; the same for all members. */
    public GroupConfig maxMesh(int members) {
        return new GroupConfig(transport, coordinator, preferredRank, role, host, joinTimeout, timeout, members,
                existing);
    }

    /** Returns a copy for a process that joins a group which exists already, or that may start before the group. */
    public GroupConfig existing(boolean exists) {
        return new GroupConfig(transport, coordinator, preferredRank, role, host, joinTimeout, timeout, maxMesh,
                exists);
    }
}
