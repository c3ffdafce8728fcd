package dev.starling.jmh.cluster;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.ServerConfig;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** A parameter server among workers that are measured: serves at all times, and keeps a journal on the disk. */
final class ServingMember implements Member {
    private static final Duration LONGEST = Duration.ofMinutes(30);

    private final Group group;

    ServingMember(TransportConfig transport, int rank, Path directory) throws IOException, InterruptedException {
        group = Group.join(GroupConfig.of(transport, Meeting.hear(directory, "coordinator")).preferredRank(rank)
            .timeout(LONGEST));
        Thread.ofPlatform().daemon().name("server").start(() -> serve(directory.resolve("servers")));
    }

    private void serve(Path directory) {
        try {
            ParameterServer.serve(group, 0, ServerConfig.in(directory));
        } catch (DistributedException e) {
            System.err.println("the server ends: " + e.getMessage());
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
