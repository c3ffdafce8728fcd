package dev.starling.distributed.coordinator;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.CoordinatorAddress;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Finds the {@link Coordinator}. A process gets its address as {@code host:port}, or from a file that all processes can
 * read, {@code file:PATH}, or from a list of hosts, whose first entry runs the coordinator. Members whose entries have
 * a port answer there for a coordinator that was lost and has another address now.
 */
public final class Rendezvous {
    private Rendezvous() { }

    /** Writes a coordinator's address to a file, for processes that join by {@code file:PATH}. */
    public static void publish(Path file, String address) {
        CoordinatorAddress.write(file, address);
    }

    /**
     * Joins a group whose members have the same list of hosts. Rank 0 runs the coordinator; when it closes its group,
     * it waits for the others to leave.
     *
     * @param hosts by rank, {@code host} or {@code host:port}, with an IPv6 address as in {@code [fe80::1]:4000}; the
     *     first needs the coordinator's port, the others may have the port on which they listen
     * @param rank of this process
     * @param onLoss what happens after a loss
     * @param minMembers number of processes with which the group may continue after losses
     */
    public static Group join(TransportConfig transport, List<String> hosts, int rank, OnLoss onLoss, int minMembers) {
        return join(transport, hosts, rank, 0, onLoss, minMembers);
    }

    /** As above; the last {@code servers} of the hosts run servers of parameters. */
    public static Group join(TransportConfig transport, List<String> hosts, int rank, int servers, OnLoss onLoss,
            int minMembers) {
        String first = hosts.getFirst();
        if (rank < 0 || rank >= hosts.size() || port(first) == 0 || servers < 0 || servers >= hosts.size()) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "the list of hosts needs an entry for "
                    + "each rank, a worker, and a port in the first entry, got " + hosts + ", rank " + rank + " and "
                    + servers + " servers", "add the missing entry or port");
        }
        String own = hosts.get(rank);
        GroupConfig config = GroupConfig.of(transport.at(host(own), rank == 0 ? 0 : port(own)),
                hosts.stream().filter(host -> port(host) > 0 && (rank == 0 || !host.equals(own)))
                        .collect(Collectors.joining(",")))
                .place(rank, hosts.size() - servers);
        if (rank > 0) {
            return Membership.join(config);
        }
        CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(transport.at(host(first),
                port(first)), hosts.size(), onLoss, minMembers, config.joinTimeout()));
        try {
            Membership group = Membership.join(config);
            group.onClose(() -> {
                coordinator.awaitDone(config.timeout());
                coordinator.close();
            });
            return group;
        } catch (RuntimeException | Error e) {
            coordinator.close();
            throw e;
        }
    }

    /** Returns the host of {@code host:port}: a name or an address, without the brackets of an IPv6 address. */
    public static String host(String entry) {
        int colon = colon(entry);
        String host = colon < 0 ? entry : entry.substring(0, colon);
        return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
    }

    /**
     * Returns the port of {@code host:port}, or 0 if there is none.
     *
     * @throws TransportException if the text after the colon is not a number
     */
    public static int port(String entry) {
        int colon = colon(entry);
        try {
            return colon < 0 ? 0 : Integer.parseInt(entry.substring(colon + 1));
        } catch (NumberFormatException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "not a port in " + entry,
                    "write host:port", e);
        }
    }

    /** Returns the index of the colon before the port, or -1. Colons of an IPv6 address do not count. */
    private static int colon(String entry) {
        int last = entry.lastIndexOf(':');
        boolean ofAddress = entry.startsWith("[") ? last < entry.lastIndexOf(']') : entry.indexOf(':') < last;
        return ofAddress ? -1 : last;
    }
}
