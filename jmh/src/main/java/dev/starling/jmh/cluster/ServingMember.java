package dev.starling.jmh.cluster;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Role;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** A parameter server among measured workers: it serves all the time, and keeps a journal on disk. */
final class ServingMember implements Member {
    private static final Duration MAX_LIFETIME = Duration.ofMinutes(30);

    private final Group group;

    ServingMember(TransportConfig transport, int rank, Path directory) throws IOException, InterruptedException {
        group = Group.join(GroupConfig.of(transport, SharedValues.await(directory, "coordinator")).preferredRank(rank)
            .role(new Role.Server(0)).timeout(MAX_LIFETIME));
        Thread.ofPlatform().daemon().name("server").start(() -> serve(directory.resolve("servers")));
    }

    private void serve(Path directory) {
        try {
            ParameterServer.serve(group, ServerConfig.in(directory));
        } catch (DistributedException e) {
            System.err.println("the parameter server ends: " + e.getMessage());
        }
    }

    @Override
    public long time(Measure measure, int bytes, int runs) {
        return 0;
    }

    @Override
    public void close() {
        group.close();
    }
}
