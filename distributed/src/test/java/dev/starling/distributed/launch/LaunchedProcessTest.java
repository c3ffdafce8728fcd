package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import dev.starling.transport.TransportException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Reading of environment variables, whichever tool sets them. */
class LaunchedProcessTest {
    private static final String HEX = "00112233445566778899aabbccddeeff";

    @TempDir
    Path dir;

    @Test
    void readsWhatTheLauncherSets() throws IOException {
        Path file = Files.writeString(dir.resolve("secret"), HEX + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        Map<String, String> variables = Map.of("STARLING_RANK", "4", "STARLING_WORLD", "6", "STARLING_SERVERS", "2",
                "STARLING_LOCAL_WORLD", "3", "STARLING_COORDINATOR", "node7:4711", "STARLING_COORDINATOR_RANK", "none",
                "STARLING_SECRET_FILE", file.toString(), "STARLING_HOST", "node8", "STARLING_DIRECTORY", "/dev/shm/x",
                "STARLING_RESTART", "2");
        LaunchedProcess process = LaunchedProcess.from(variables).orElseThrow();
        assertThat(process.rank()).isEqualTo(4);
        assertThat(process.world()).isEqualTo(6);
        assertThat(process.workers()).isEqualTo(4);
        assertThat(process.isServer()).isTrue();
        assertThat(process.localWorld()).isEqualTo(3);
        assertThat(process.localRank()).as("of ranks 3 to 5, one host's").isEqualTo(1);
        assertThat(process.localWorkers()).as("of which any may serve").isEqualTo(3);
        assertThat(process.coordinator()).isEqualTo("node7:4711");
        assertThat(process.runsCoordinator()).isFalse();
        assertThat(process.secret().toHex()).isEqualTo(HEX);
        assertThat(process.host()).isEqualTo("node8");
        assertThat(process.directory()).isEqualTo(Path.of("/dev/shm/x"));
        assertThat(process.restart()).isEqualTo(2);
        assertThat(process.toString()).doesNotContain(HEX);
    }

    @Test
    void readsWhatOtherToolsSet() {
        Map<String, String> mine = Map.of("STARLING_COORDINATOR", "node7:4711", "STARLING_SECRET", HEX);
        for (Map<String, String> theirs : List.of(
                Map.of("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "3", "OMPI_COMM_WORLD_LOCAL_RANK", "2"),
                Map.of("PMI_RANK", "0", "PMI_SIZE", "3"),
                Map.of("SLURM_PROCID", "0", "SLURM_NTASKS", "3", "SLURM_LOCALID", "2"),
                Map.of("JOB_COMPLETION_INDEX", "0", "STARLING_WORLD", "3"))) {
            Map<String, String> variables = new HashMap<>(mine);
            variables.putAll(theirs);
            LaunchedProcess process = LaunchedProcess.from(variables).orElseThrow();
            assertThat(process.world()).isEqualTo(3);
            assertThat(process.runsCoordinator()).isTrue();
            assertThat(process.host()).isEqualTo("127.0.0.1");
            boolean localRankSet = theirs.keySet().stream().anyMatch(name -> name.contains("LOCAL"));
            assertThat(process.localRank()).isEqualTo(localRankSet ? 2 : 0);
        }
    }

    @Test
    void dividesAHostAmongItsWorkers() {
        Map<String, String> variables = new HashMap<>(Map.of("STARLING_RANK", "0", "STARLING_WORLD", "6",
                "STARLING_SERVERS", "4", "STARLING_SECRET", HEX));
        int processors = Runtime.getRuntime().availableProcessors();
        for (int[] localAndWorkers : new int[][] {{6, 2}, {3, 3}, {1, 1}}) {
            variables.put("STARLING_LOCAL_WORLD", Integer.toString(localAndWorkers[0]));
            LaunchedProcess process = LaunchedProcess.from(variables).orElseThrow();
            assertThat(process.localWorkers()).isEqualTo(localAndWorkers[1]);
            assertThat(process.threads()).isEqualTo(Math.max(1, processors / localAndWorkers[1]));
        }
    }

    /** Five processes: two services, which start workers and servers, each count from 0. */
    @Test
    void countsEachRoleFromZero() {
        Map<String, String> variables = new HashMap<>(Map.of("STARLING_COORDINATOR", "node7:4711", "STARLING_SECRET",
                HEX, "STARLING_WORLD", "5", "STARLING_SERVERS", "2", "JOB_COMPLETION_INDEX", "1"));
        assertThat(LaunchedProcess.from(variables).orElseThrow().rank()).isEqualTo(1);
        variables.put("STARLING_ROLE", "worker");
        assertThat(LaunchedProcess.from(variables).orElseThrow().rank()).isEqualTo(1);
        variables.put("STARLING_ROLE", "server");
        LaunchedProcess server = LaunchedProcess.from(variables).orElseThrow();
        assertThat(server.rank()).isEqualTo(4);
        assertThat(server.isServer()).isTrue();
        variables.put("JOB_COMPLETION_INDEX", "2");
        assertRefused(variables, "the number of servers");
        variables.put("STARLING_ROLE", "cook");
        assertRefused(variables, "STARLING_ROLE");
    }

    @Test
    void recognisesAProcessThatWasNotLaunched() {
        assertThat(LaunchedProcess.from(Map.of())).isEmpty();
        // A Slurm job that trains by itself.
        assertThat(LaunchedProcess.from(Map.of("SLURM_PROCID", "0", "SLURM_NTASKS", "1"))).isEmpty();
    }

    @Test
    void namesAMalformedVariable() {
        assertRefused(Map.of("STARLING_RANK", "0"), "STARLING_WORLD");
        assertRefused(Map.of("STARLING_RANK", "one", "STARLING_WORLD", "3", "STARLING_SECRET", HEX), "STARLING_RANK");
        assertRefused(Map.of("STARLING_RANK", "3", "STARLING_WORLD", "3", "STARLING_SECRET", HEX), "STARLING_RANK");
        assertRefused(Map.of("STARLING_RANK", "0", "STARLING_WORLD", "3"), "STARLING_SECRET_FILE");
        assertRefused(Map.of("STARLING_RANK", "0", "STARLING_WORLD", "3", "STARLING_SERVERS", "3",
                "STARLING_SECRET", HEX), "STARLING_SERVERS");
        assertThatThrownBy(() -> LaunchedProcess.from(Map.of("STARLING_RANK", "0", "STARLING_WORLD", "3",
                "STARLING_SECRET_FILE", dir.resolve("absent").toString())))
                .isInstanceOf(TransportException.class).hasMessageContaining("absent");
    }

    private static void assertRefused(Map<String, String> variables, String name) {
        assertThatThrownBy(() -> LaunchedProcess.from(variables))
                .isInstanceOf(TensorException.class).hasMessageContaining(name);
    }
}
