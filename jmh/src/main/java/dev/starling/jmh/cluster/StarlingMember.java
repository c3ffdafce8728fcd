package dev.starling.jmh.cluster;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.tensor.DType;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;

/** A member of a Starling group. */
final class StarlingMember implements Member {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    private final CoordinatorThread coordinator;
    private final Group group;
    private final SymmetricBuffer buffer;
    private Work work;
    private int prepared = -1;

    StarlingMember(TransportConfig transport, int rank, int world, Path directory)
            throws IOException, InterruptedException {
        coordinator = rank != 0 ? null : CoordinatorThread.start(Coordinator.open(transport, world,
            Coordinator.OnLoss.END, 1, TIMEOUT));
        if (rank == 0) {
            SharedValues.publish(directory, "coordinator", coordinator.address());
        }
        group = Group.join(GroupConfig.of(transport, SharedValues.await(directory, "coordinator")).preferredRank(rank));
        buffer = group.collectives().symmetric(MAX_BYTES);
    }

    @Override
    public long time(Measure measure, int bytes, int runs) {
        if (prepared != bytes) {
            work = group.collectives().prepareAllReduce(buffer, 0, bytes / Float.BYTES, DType.F32, ReduceOp.SUM, "");
            prepared = bytes;
        }
        group.collectives().barrier().await(TIMEOUT);
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            work.run(TIMEOUT);
        }
        return System.nanoTime() - start;
    }

    @Override
    public void close() {
        buffer.close();
        group.close();
        if (coordinator != null) {
            coordinator.close();
        }
    }
}
