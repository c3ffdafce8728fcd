package dev.starling.distributed;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * How processes find each other. Each needs the address of the {@link Coordinator}: it is told as {@code host:port}, or
 * found in a file that all can read, {@code file:PATH}, or known from a list of hosts, whose first one runs it.
 */
public final class Rendezvous {
    private static final String FILE = "file:";
    private static final long LOOK_EVERY_MS = 20;

    private Rendezvous() { }

    /** Writes a coordinator's address where those who join by {@code file:PATH} look for it. */
    public static void publish(Path file, String address) {
        try {
            Path whole = file.resolveSibling(file.getFileName() + ".new");
            Files.writeString(whole, address);
            Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            throw new DistributedException("cannot write the coordinator's address to " + file + ": " + e, e);
        }
    }

    /** Returns a coordinator's address; waits for the file, if it is in one. */
    static String resolve(String coordinator, Duration atMost) {
        if (!coordinator.startsWith(FILE)) {
            return coordinator;
        }
        Path file = Path.of(coordinator.substring(FILE.length()));
        long begin = System.nanoTime();
        while (System.nanoTime() - begin < atMost.toNanos()) {
            try {
                return Files.readString(file).strip();
            } catch (NoSuchFileException e) {
                pause();
            } catch (IOException e) {
                throw new DistributedException("cannot read the coordinator's address in " + file + ": " + e, e);
            }
        }
        throw new DistributedException("waited " + atMost + " for the coordinator's address in " + file
                + "; start the process that publishes it");
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(LOOK_EVERY_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new DistributedException("interrupted while waiting for the coordinator's address", e);
        }
    }

    /**
     * Joins a group whose members all know the same list of hosts. The first one's process runs the coordinator, and
     * when it closes its group waits for the others to leave.
     *
     * @param hosts by rank, {@code host} or {@code host:port}, {@code [fe80::1]:4000} if it is an IPv6 address; the
     *     first with the coordinator's port, the others with the one they listen on, if it is not any
     * @param rank of this process
     * @param onLoss what a loss means
     * @param fewest number of processes that may go on together after losses
     */
    public static Group join(TransportConfig transport, List<String> hosts, int rank, OnLoss onLoss, int fewest) {
        String first = hosts.getFirst();
        if (rank < 0 || rank >= hosts.size() || port(first) == 0) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a list of hosts has one for each rank,"
                    + " the first with a port, got " + hosts + " and rank " + rank, "");
        }
        String own = hosts.get(rank);
        GroupConfig config = GroupConfig.of(transport.at(host(own), rank == 0 ? 0 : port(own)), first).wish(rank);
        if (rank > 0) {
            return Group.join(config);
        }
        CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(transport.at(host(first),
                port(first)), hosts.size(), onLoss, fewest, config.joining()));
        try {
            Group group = Group.join(config);
            group.onClose(() -> {
                coordinator.awaitDone(config.patience());
                coordinator.close();
            });
            return group;
        } catch (RuntimeException e) {
            coordinator.close();
            throw e;
        }
    }

    /** Returns the host of {@code host:port}: its name or address, without the brackets of an IPv6 address. */
    public static String host(String entry) {
        int colon = colon(entry);
        String host = colon < 0 ? entry : entry.substring(0, colon);
        return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
    }

    /**
     * Returns the port, 0 if there is none.
     *
     * @throws TransportException if what comes after the colon is no number
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

    /** Returns where the colon before a port is, or -1: it is none of those of an IPv6 address. */
    private static int colon(String entry) {
        int last = entry.lastIndexOf(':');
        boolean ofAddress = entry.startsWith("[") ? last < entry.lastIndexOf(']') : entry.indexOf(':') < last;
        return ofAddress ? -1 : last;
    }
}
