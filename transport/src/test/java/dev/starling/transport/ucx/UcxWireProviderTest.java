package dev.starling.transport.ucx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.WireProvider;
import dev.starling.transport.spi.WireProvider.Availability;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class UcxWireProviderTest {
    /** Queries twice whether UCX is available, and opens a wire. */
    static final class AvailabilityProgram {
        private AvailabilityProgram() { }

        public static void main(String[] args) {
            UcxWireProvider provider = new UcxWireProvider();
            System.out.println(provider.availability());
            System.out.println(provider.availability().getClass().getSimpleName());
            try {
                provider.open(TransportConfig.of("ucx", Secret.random()).wire()).close();
                System.out.println("opened");
            } catch (TransportException e) {
                System.out.println(e.problem() + ": " + e.getMessage());
            }
        }
    }

    @Test
    void isFound() {
        assertThat(ServiceLoader.load(WireProvider.class)).anyMatch(UcxWireProvider.class::isInstance);
        assertThat(new UcxWireProvider().name()).isEqualTo("ucx");
    }

    @Test
    void reportsAMissingLibrary(@TempDir Path directory) throws Exception {
        // The loader finds this file first, and cannot load it.
        Files.createFile(directory.resolve("libucp.so.0"));
        List<String> lines = runProgram("LD_LIBRARY_PATH", directory, List.of());
        assertThat(lines).hasSize(3);
        assertThat(lines.get(0)).startsWith("Missing[reason=UCX's native library cannot be loaded: ")
                .contains("libucp.so.0").contains("apt-get install libucx0");
        assertThat(lines.get(1)).isEqualTo("Missing");
        assertThat(lines.get(2)).startsWith("UNAVAILABLE: UCX's native library").contains("apt-get install libucx0");
    }

    @Test
    void leavesNoFileAndPrintsNothing(@TempDir Path directory) throws Exception {
        assumeTrue(new UcxWireProvider().availability() instanceof Availability.Ready,
                "UCX (libucp.so.0) is not installed here");
        List<String> lines = runProgram("UNUSED", directory, List.of("-Djava.io.tmpdir=" + directory));
        assertThat(lines).hasSize(3);
        assertThat(lines.get(0)).startsWith("Ready[");
        assertThat(lines.get(2)).isEqualTo("opened");
        assertThat(directory).isEmptyDirectory();
    }

    /** Returns what a process prints on either output. */
    private static List<String> runProgram(String variable, Path value, List<String> flags)
            throws IOException, InterruptedException {
        ProcessBuilder builder = UcxPeer.builder(AvailabilityProgram.class, flags);
        builder.environment().put(variable, value.toString());
        Process process = builder.redirectErrorStream(true).start();
        List<String> lines = process.inputReader().lines().toList();
        assertThat(process.waitFor()).as(lines.toString()).isZero();
        return lines;
    }
}
