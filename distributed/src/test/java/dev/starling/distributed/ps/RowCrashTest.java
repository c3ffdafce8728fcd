package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.Role;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ps.server.ServerCrashTest;
import dev.starling.distributed.ps.store.RowFile;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointWriter;
import dev.starling.nn.checkpoint.Part;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The process of a server is killed while it writes its rows. */
@Timeout(150)
@Tag("stress")
class RowCrashTest {
    private static final int ROWS = 60_000;
    private static final int WIDTH = 256;

    @TempDir
    Path directory;

    private final Secret secret = Secret.random();
    private final TransportConfig transport = TransportConfig.of("aeron", secret)
            .livenessTimeout(Duration.ofSeconds(3));
    private CoordinatorThread coordinator;
    private Process server;

    @AfterEach
    void end() throws InterruptedException {
        if (server != null) {
            server.destroyForcibly().waitFor();
        }
        if (coordinator != null) {
            coordinator.close();
        }
    }

    private void startServer() throws IOException {
        server = ServerCrashTest.start(MemberProgram.class, "-Xmx512m", "server", coordinator.address(),
                secret.toHex(), directory.resolve("server").toString(), "1");
    }

    @Test
    void thePreviousCheckpointRemainsAndTheNextIsComplete() throws Exception {
        coordinator = CoordinatorThread.start(Coordinator.open(transport, 2, Coordinator.OnLoss.REFORM, 1,
                MemberProgram.TIMEOUT));
        startServer();
        Path checkpoints = directory.resolve("checkpoints");
        long[] ids = LongStream.range(0, ROWS).toArray();
        try (Group group = MemberProgram.join(transport, coordinator.address(), 0, new Role.Worker());
                Scope scope = Scope.open("test");
                EmbeddingTable table = EmbeddingTable.of("rows", ROWS, WIDTH).build();
                Optimizer sgd = Sgd.over(table).rate(1).build();
                CheckpointWriter writer = new CheckpointWriter(checkpoints, 2);
                ParameterServer servers = ParameterServer.worker(group, 0).workers(1).build()) {
            TrainingState state = TrainingState.of(table, sgd);
            servers.start(state);
            Tensor ones = Tensor.full(DType.F32, 1, ROWS, WIDTH);
            for (int step = 1; step <= 3; step++) {
                table.push(ids, ones);
                servers.beforeStep(new Tensor[1]);
                Parts parts = servers.saveParts(checkpoints);
                writer.save(step, state.tensors(), Map.of(), parts);
                if (step == 2) {
                    server.toHandle().destroyForcibly();
                    server.waitFor();
                    startServer();
                    assertThat(writer.await()).as("given up").isEmpty();
                    assertNoDrafts(checkpoints);
                } else {
                    assertThat(writer.await()).contains(checkpoints.resolve("step-000000000" + step + ".json"));
                }
                assertRows(Checkpoint.latest(checkpoints).orElseThrow(), step == 2 ? 1 : step);
            }
            assertThat(table.pull(5).toFloats()).containsOnly(-3);
            assertNoDrafts(checkpoints);
            servers.finish();
        }
        assertThat(server.waitFor(60, TimeUnit.SECONDS)).isTrue();
    }

    private static void assertNoDrafts(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.list(checkpoints)) {
            assertThat(files.filter(path -> path.toString().endsWith(".tmp"))).isEmpty();
        }
    }

    private static void assertRows(Checkpoint checkpoint, int steps) throws IOException {
        assertThat(checkpoint.step()).isEqualTo(steps);
        int found = 0;
        for (Part part : checkpoint.parts()) {
            try (RowFile in = new RowFile(checkpoint.path().resolveSibling(part.file()))) {
                while (in.next()) {
                    assertThat(in.row().getFloat(0)).isEqualTo(-steps);
                    assertThat(in.row().getFloat(4 * WIDTH - 4)).isEqualTo(-steps);
                    found++;
                }
                in.verify(part.checksum());
            }
        }
        assertThat(found).isEqualTo(ROWS);
    }
}
