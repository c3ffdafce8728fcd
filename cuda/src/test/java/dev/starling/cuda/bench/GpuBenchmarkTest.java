package dev.starling.cuda.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;

/** The benchmark itself, with tiny sizes. */
class GpuBenchmarkTest {
    @TempDir
    Path folder;

    @Test
    void measuresEveryCaseOnTheHost() throws IOException {
        measures("cpu", "");
    }

    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
    void measuresOnAnEmulatedGpu() throws IOException {
        measures("cuda-emulated", "^(add f32 1$|matmul f32|mlp f32 .* eager)");
    }

    @Test
    void ignoresGoalsIfAsked() {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        assertThat(GpuBenchmark.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", "cpu",
                "--python", "none", "--tiny", "--rounds", "1", "--millis", "1", "--no-goals", "--only",
                "^(copy|add) f32 1024")).isTrue();
        assertThat(output.toString(StandardCharsets.UTF_8)).contains("alone  copy f32", "0 failed of 2")
                .doesNotContain("held", "MISSED");
    }

    private void measures(String device, String only) throws IOException {
        Path json = folder.resolve("findings");
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        GpuBenchmark.run(new PrintStream(output, true, StandardCharsets.UTF_8), "--device", device, "--python", "none",
                "--tiny", "--rounds", "1", "--millis", "1", "--json", json.toString(), "--only", only);
        List<String> findings = Files.readAllLines(json);
        assertThat(findings).hasSizeGreaterThanOrEqualTo(3);
        if (only.isEmpty()) {
            assertThat(findings).hasSameSizeAs(Workload.all(true));
        }
        assertThat(findings).allSatisfy(f -> assertThat(f).contains("\"pytorch\":null", "\"note\":\"\"")
                .doesNotContain("\"starling\":null"));
        assertThat(output.toString(StandardCharsets.UTF_8)).contains(" passed, ").contains("Starling");
    }
}
