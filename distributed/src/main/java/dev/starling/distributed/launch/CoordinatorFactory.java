package dev.starling.distributed.launch;

import dev.starling.distributed.CoordinatorThread;
import dev.starling.transport.Secret;
import java.nio.file.Path;

/** Opens the coordinator at which the processes of a launch find each other. */
@FunctionalInterface
public interface CoordinatorFactory {
    /**
     * Starts a coordinator, which the launch then closes.
     *
     * @param secret of the cluster
     * @param directory where its transport, as those of the processes, may keep files
     * @param processes how many will come
     */
    CoordinatorThread open(Secret secret, Path directory, int processes);
}
