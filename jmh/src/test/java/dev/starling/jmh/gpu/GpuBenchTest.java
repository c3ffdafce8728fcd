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

    @Test
    void refusesToRunNoCase() {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertThat(GpuBench.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", "cpu", "--tiny",
                "--once", "--only", "no such case")).isEqualTo(2);
        assertThat(output.toString(StandardCharsets.UTF_8)).contains("no such case");
    }

    /** The peer prepares each case and ends when it is to run it. */
    @Test
    void measuresAllCasesThoughThePeerEnds() throws IOException {
        assertThat(measuresBeside("""
                #!/bin/sh
                while read order rest; do
                    if [ "$order" = time ]; then exit 1; fi
                    echo "@ $order"
                done
                """, "1", "^(copy|add) f32 1024")).hasSize(2).allSatisfy(f -> assertThat(f).contains(
                "\"pytorch\":null", "PyTorch: its process ended").doesNotContain("\"starling\":null"));
    }

    /** The peer answers while it warms up, and ends in the first round. */
    @Test
    void keepsStarlingsTimesThoughThePeerEndsInARound() throws IOException {
        assertThat(measuresBeside("""
                #!/bin/sh
                count=0
                while read order rest; do
                    if [ "$order" = time ]; then count=$((count + 1)); fi
                    if [ $count = 4 ]; then exit 1; fi
                    echo "@ 0.01"
                done
                """, "1", "^copy f32 1024")).singleElement().asString().contains("\"pytorch\":null",
                "PyTorch: its process ended").doesNotContain("\"starling\":null");
    }

    /** The peer's first run takes 100 s, and every other a millisecond. */
    @Test
    void doesNotCountTheRunInWhichThePeerCompiles() throws IOException {
        Path orders = folder.resolve("orders");
        measuresBeside("""
                #!/bin/sh
                first=100
                while read order rest; do
                    if [ "$order" = time ]; then
                        echo "$rest" >> "%s"
                        echo "@ ${first:-${rest}e-3}"
                        first=
                    else
                        echo "@ $order"
                    fi
                done
                """.formatted(orders), "10", "^copy f32 1024");
        assertThat(Files.readAllLines(orders)).last().isEqualTo("10");
    }

    /** Returns the findings of one round beside a script in place of PyTorch. */
    private List<String> measuresBeside(String script, String millis, String only) throws IOException {
        Path peer = folder.resolve("peer");
        Files.writeString(peer, script);
        assertThat(peer.toFile().setExecutable(true)).isTrue();
        Path json = folder.resolve("findings");
        GpuBench.run(new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8), "--device", "cpu",
                "--python", peer.toString(), "--tiny", "--rounds", "1", "--millis", millis, "--json", json.toString(),
                "--only", only);
        return Files.readAllLines(json);
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
