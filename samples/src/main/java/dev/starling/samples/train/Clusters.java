package dev.starling.samples.train;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.coordinator.Rendezvous;
import dev.starling.distributed.launch.CoordinatorFactory;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.nio.file.Path;
import java.time.Duration;

/** Connects the processes of a group. */
public final class Clusters {
    /** A process that sends no heartbeat for this long counts as lost. */
    public static final Duration LIVENESS_TIMEOUT = Duration.ofSeconds(10);

    /** Timeout of joining: before that, each process reads, draws or copies data sets, some more slowly than others. */
    private static final Duration JOIN_TIMEOUT = Duration.ofMinutes(5);

    /**
     * Timeout of waiting for other processes or a server. After that training ends even if no process counts as lost.
     */
    static final Duration TIMEOUT = Duration.ofMinutes(2);

    private static final String FILE = "file:";
    private static final int MAX_PORT = 65_535;

    private Clusters() {
    }

    /** Returns a factory of coordinators on this host. */
    public static CoordinatorFactory coordinator(String transport, CoordinatorConfig rules, Duration livenessTimeout) {
        return (secret, directory, _) -> CoordinatorThread.start(Coordinator.open(
                TransportConfig.of(transport, secret).directory(directory).livenessTimeout(livenessTimeout),
                rules.joinTimeout(JOIN_TIMEOUT)));
    }

    /** A resource whose {@code close} throws no checked exception. */
    interface Resource extends AutoCloseable {
        @Override
        void close();
    }

    /**
     * Starts the coordinator if this process is the one that runs it. Closing the result waits for the members to
     * leave.
     */
    static Resource coordinator(LaunchedProcess process, TransportConfig config, CoordinatorConfig rules) {
        if (!process.runsCoordinator() || process.coordinator() == null) {
            return () -> { };
        }
        CoordinatorThread coordinator = open(process.coordinator(), config, rules);
        return () -> {
            coordinator.awaitDone(config.livenessTimeout());
            coordinator.close();
        };
    }

    /**
     * Opens a coordinator.
     *
     * @param address {@code host:port} to listen on, or {@code file:PATH} to which the address is written
     * @param config configuration of the transport
     * @param rules of the group
     * @throws IllegalArgumentException if the address has neither form
     */
    public static CoordinatorThread open(String address, TransportConfig config, CoordinatorConfig rules) {
        boolean file = address.startsWith(FILE);
        CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(file ? config
                : listening(config, address), rules.joinTimeout(JOIN_TIMEOUT)));
        if (file) {
            Rendezvous.publish(Path.of(address.substring(FILE.length())), coordinator.address());
        }
        return coordinator;
    }

    /** Returns a configuration that listens on the coordinator's address. */
    private static TransportConfig listening(TransportConfig config, String coordinator) {
        try {
            int port = Rendezvous.port(coordinator);
            if (port >= 1 && port <= MAX_PORT) {
                return config.at(Rendezvous.host(coordinator), port);
            }
        } catch (TransportException e) {
            throw badAddress(coordinator, e);
        }
        throw badAddress(coordinator, null);
    }

    private static IllegalArgumentException badAddress(String coordinator, Exception cause) {
        return new IllegalArgumentException("the coordinator's address (STARLING_COORDINATOR) must be "
                + "host:port with a port from 1 to " + MAX_PORT + ", or file:PATH, got " + coordinator, cause);
    }

    /**
     * Joins the group of all launched processes.
     *
     * @param existing whether the group exists already; also assumed for a process that was started again, unless its
     *     coordinator may have been as well
     */
    static Group join(LaunchedProcess process, TransportConfig config, boolean existing) {
        if (process.coordinator() == null) {
            throw new IllegalArgumentException("STARLING_RANK is set but STARLING_COORDINATOR is not: set "
                    + "it to the host:port of the coordinator");
        }
        return Group.join(GroupConfig.of(config, process.coordinator()).place(process.rank(), process.workers())
                .joinTimeout(JOIN_TIMEOUT).timeout(TIMEOUT)
                .existing(existing || process.restart() > 0 && process.coordinatorRank() < 0));
    }

    /** Returns the configuration of a process's transport. */
    static TransportConfig config(LaunchedProcess process, TeamOptions options) {
        return TransportConfig.of(options.transport, process.secret()).at(process.host(), 0)
                .directory(process.directory()).livenessTimeout(options.livenessTimeout())
                .protection(options.protection());
    }
}
