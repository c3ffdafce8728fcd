package dev.starling.jmh.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The benchmark itself, with tiny sizes. */
class GpuBenchTest {
    @TempDir
    Path folder;

    @Test
    void measuresEveryCaseOnTheHost() throws IOException {
        measures("cpu", "");
    }

    @Test
    void runsEveryCaseOnce() {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertThat(GpuBench.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", "cpu", "--tiny",
                "--once")).isZero();
        assertThat(output.size()).isZero();
    }

    @Test
    void reportsAMissingDevice() {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertThat(GpuBench.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", "none"))
                .isEqualTo(2);
        assertThat(output.toString(StandardCharsets.UTF_8)).contains("none").doesNotContain("FAILED");
    }

    @Test
    void ignoresGoalsIfAsked() {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertThat(GpuBench.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", "cpu",
                "--python", "none", "--tiny", "--rounds", "1", "--millis", "1", "--no-goals", "--only",
                "^(copy|add) f32 1024")).isZero();
        assertThat(output.toString(StandardCharsets.UTF_8)).contains("alone  copy f32", "0 failed of 2")
                .doesNotContain("held", "MISSED");
    }

    /** The peer prepares each case and ends when it is to run it. */
    @Test
    void measuresAllCasesThoughThePeerEnds() throws IOException {
        Path peer = folder.resolve("peer");
        Files.writeString(peer, """
                #!/bin/sh
                while read order rest; do
                    if [ "$order" = time ]; then exit 1; fi
                    echo "@ $order"
                done
                """);
        assertThat(peer.toFile().setExecutable(true)).isTrue();
        Path json = folder.resolve("findings");
        GpuBench.run(new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8), "--device", "cpu",
                "--python", peer.toString(), "--tiny", "--rounds", "1", "--millis", "1", "--json", json.toString(),
                "--only", "^(copy|add) f32 1024");
        assertThat(Files.readAllLines(json)).hasSize(2).allSatisfy(f -> assertThat(f).contains("\"pytorch\":null",
                "PyTorch: its process ended").doesNotContain("\"starling\":null"));
    }

    private void measures(String device, String only) throws IOException {
        Path json = folder.resolve("findings");
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        GpuBench.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", device, "--python", "none",
                "--tiny", "--rounds", "1", "--millis", "1", "--json", json.toString(), "--only", only);
        List<String> findings = Files.readAllLines(json);
        assertThat(findings).hasSizeGreaterThanOrEqualTo(3);
        if (only.isEmpty()) {
            assertThat(findings).hasSameSizeAs(GpuWorkload.all(true));
        }
        assertThat(findings).allSatisfy(f -> assertThat(f).contains("\"pytorch\":null", "\"note\":\"\"")
                .doesNotContain("\"starling\":null"));
        assertThat(output.toString(StandardCharsets.UTF_8)).contains(" passed, ").contains("Starling");
    }
}
