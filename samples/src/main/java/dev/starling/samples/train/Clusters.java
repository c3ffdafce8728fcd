package dev.starling.samples.train;

import dev.starling.distributed.Coordinator;
import dev.starling.distributed.CoordinatorThread;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.launch.Rendezvous;
import dev.starling.transport.TransportConfig;
import java.time.Duration;

/** How processes find each other. */
public final class Clusters {
    /** After this long without a sign of life a process counts as lost. */
    public static final Duration SILENCE = Duration.ofSeconds(10);

    /** Data sets are read, drawn or copied before a process joins, and not everywhere as fast. */
    private static final Duration JOINING = Duration.ofMinutes(5);

    private Clusters() {
    }

    /** Returns what opens a coordinator on this host. */
    public static Rendezvous coordinator(String transport, Coordinator.OnLoss onLoss, Duration silence) {
        return (secret, directory, processes) -> CoordinatorThread.start(Coordinator.open(
                TransportConfig.of(transport, secret).directory(directory).silence(silence), processes, onLoss, 1,
                JOINING));
    }

    /** Starts the coordinator if it is this process's to do so; else returns {@code null}. */
    static CoordinatorThread coordinator(LaunchedProcess me, String transport, Coordinator.OnLoss onLoss,
            Duration silence) {
        if (!me.runsCoordinator()) {
            return null;
        }
        int colon = me.coordinator().lastIndexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("STARLING_COORDINATOR must be host:port, got " + me.coordinator());
        }
        TransportConfig config = config(me, transport, silence)
                .at(me.coordinator().substring(0, colon), Integer.parseInt(me.coordinator().substring(colon + 1)));
        return CoordinatorThread.start(Coordinator.open(config, me.world(), onLoss, 1, JOINING));
    }

    /** Joins the group of all launched processes. */
    static Group join(LaunchedProcess me, String transport, Duration silence) {
        if (me.coordinator() == null) {
            throw new IllegalArgumentException("STARLING_COORDINATOR must be host:port of the coordinator where "
                    + "STARLING_RANK is set, got nothing");
        }
        return Group.join(GroupConfig.of(config(me, transport, silence), me.coordinator()).wish(me.rank())
                .joining(JOINING).patience(JOINING));
    }

    private static TransportConfig config(LaunchedProcess me, String transport, Duration silence) {
        return TransportConfig.of(transport, me.secret()).at(me.host(), 0).directory(me.directory()).silence(silence);
    }
}
