package dev.starling.samples.train;

import dev.starling.distributed.Coordinator;
import dev.starling.distributed.CoordinatorThread;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Rendezvous;
import dev.starling.distributed.launch.CoordinatorFactory;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.nio.file.Path;
import java.time.Duration;

/** How processes find each other. */
public final class Clusters {
    /** After this long without a sign of life a process counts as lost. */
    public static final Duration SILENCE = Duration.ofSeconds(10);

    /** Data sets are read, drawn or copied before a process joins, and not everywhere as fast. */
    private static final Duration JOINING = Duration.ofMinutes(5);

    /** After this long without the others, or a server, training ends even if nobody counts as lost. */
    static final Duration PATIENCE = Duration.ofMinutes(2);

    private static final String FILE = "file:";
    private static final int MAX_PORT = 65_535;

    private Clusters() {
    }

    /** Returns what opens a coordinator on this host. */
    public static CoordinatorFactory coordinator(String transport, Coordinator.OnLoss onLoss, Duration silence) {
        return (secret, directory, processes) -> CoordinatorThread.start(Coordinator.open(
                TransportConfig.of(transport, secret).directory(directory).silence(silence), processes, onLoss, 1,
                JOINING));
    }

    /** What ends without a checked exception. */
    interface Ending extends AutoCloseable {
        @Override
        void close();
    }

    /** Starts the coordinator if it is this process's to do so. It ends after the members have left. */
    static Ending coordinator(LaunchedProcess me, String transport, Coordinator.OnLoss onLoss,
            Duration silence) {
        if (!me.runsCoordinator() || me.coordinator() == null) {
            return () -> { };
        }
        CoordinatorThread coordinator = open(me.coordinator(), config(me, transport, silence), me.world(), onLoss, 1);
        return () -> {
            coordinator.awaitDone(silence);
            coordinator.close();
        };
    }

    /**
     * Opens a coordinator.
     *
     * @param address {@code host:port} to listen at, or {@code file:PATH} to which the address is written
     * @param config of the transport
     * @param world number of members that the group begins with
     * @param fewest members that it may go on with, if it re-forms
     * @throws IllegalArgumentException if the address is neither
     */
    public static CoordinatorThread open(String address, TransportConfig config, int world, Coordinator.OnLoss onLoss,
            int fewest) {
        boolean file = address.startsWith(FILE);
        CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(file ? config
                : listening(config, address), world, onLoss, fewest, JOINING));
        if (file) {
            Rendezvous.publish(Path.of(address.substring(FILE.length())), coordinator.address());
        }
        return coordinator;
    }

    /** Returns a configuration that listens where the others look for the coordinator. */
    private static TransportConfig listening(TransportConfig config, String coordinator) {
        try {
            int port = Rendezvous.port(coordinator);
            if (port >= 1 && port <= MAX_PORT) {
                return config.at(Rendezvous.host(coordinator), port);
            }
        } catch (TransportException e) {
            throw wrong(coordinator, e);
        }
        throw wrong(coordinator, null);
    }

    private static IllegalArgumentException wrong(String coordinator, Exception cause) {
        return new IllegalArgumentException("the coordinator's address (STARLING_COORDINATOR) must be "
                + "host:port, the port between 1 and "
                + MAX_PORT + ", or file:PATH, got " + coordinator, cause);
    }

    /** Joins the group of all launched processes. */
    static Group join(LaunchedProcess me, String transport, Duration silence) {
        if (me.coordinator() == null) {
            throw new IllegalArgumentException("STARLING_COORDINATOR must be host:port of the coordinator where "
                    + "STARLING_RANK is set, got nothing");
        }
        return Group.join(GroupConfig.of(config(me, transport, silence), me.coordinator()).preferredRank(me.rank())
                .joinTimeout(JOINING).timeout(PATIENCE));
    }

    private static TransportConfig config(LaunchedProcess me, String transport, Duration silence) {
        return TransportConfig.of(transport, me.secret()).at(me.host(), 0).directory(me.directory()).silence(silence);
    }
}
