package dev.starling.distributed.launch;

import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.transport.Secret;
import java.nio.file.Path;

/** Opens the coordinator of a launch. */
@FunctionalInterface
public interface CoordinatorFactory {
    /**
     * Starts a coordinator, which the launch closes.
     *
     * @param secret of the cluster
     * @param directory in which the coordinator's transport, like those of the processes, may keep files
     * @param processes number of processes that will join
     */
    CoordinatorThread open(Secret secret, Path directory, int processes);
}
