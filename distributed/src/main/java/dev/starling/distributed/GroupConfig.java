package dev.starling.distributed;

import dev.starling.transport.TransportConfig;
import java.time.Duration;

/**
 * How a process joins a group. Immutable.
 *
 * @param transport how this process is reached
 * @param coordinator address of the {@link Coordinator}, or {@code file:PATH} of a file that holds it
 * @param wish the rank that this process would like, or -1
 * @param host name of the machine: processes with the same text can map each other's memory
 * @param joining how long the group may take to come together
 * @param patience how long a collective may take, or a new epoch
 */
public record GroupConfig(TransportConfig transport, String coordinator, int wish, String host, Duration joining,
        Duration patience) {
    /** Returns a configuration with a minute for joining and for each collective, on this host. */
    public static GroupConfig of(TransportConfig transport, String coordinator) {
        return new GroupConfig(transport, coordinator, -1, Hosts.own(), Duration.ofMinutes(1), Duration.ofMinutes(1));
    }

    /** Returns this with a wish for a rank. */
    public GroupConfig wish(int rank) {
        return new GroupConfig(transport, coordinator, rank, host, joining, patience);
    }

    /** Returns this with another name of the host. */
    public GroupConfig host(String name) {
        return new GroupConfig(transport, coordinator, wish, name, joining, patience);
    }

    /** Returns this with another time for the group to come together. */
    public GroupConfig joining(Duration atMost) {
        return new GroupConfig(transport, coordinator, wish, host, atMost, patience);
    }

    /** Returns this with another time for collectives. */
    public GroupConfig patience(Duration atMost) {
        return new GroupConfig(transport, coordinator, wish, host, joining, atMost);
    }
}
