package dev.starling.cuda.dnn;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.FakeLibraries;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.DisabledIf;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** NVIDIA's cuDNN has engines for Starling's graphs; checked in a child process with a driver that does nothing. */
@EnabledIfEnvironmentVariable(named = "STARLING_CUDNN", matches = ".+", disabledReason = "names no folders with cuDNN, "
        + "cuBLAS, NVRTC and the runtime")
@DisabledIf(value = "isDriverInstalled", disabledReason = "a driver is installed, so the backend itself can run")
class GraphSupportTest {
    static boolean isDriverInstalled() {
        return Files.exists(Path.of("/dev/nvidiactl"));
    }

    @Test
    @Timeout(value = 1, unit = TimeUnit.HOURS)
    void findsAnEngineForEachGraph(@TempDir Path folder) throws Exception {
        Path source = folder.resolve("driver.cpp");
        try (InputStream in = FakeLibraries.class.getResourceAsStream("driver.cpp")) {
            Files.copy(in, source);
        }
        run(new ProcessBuilder("g++", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                folder.resolve("libcuda.so.1").toString(), source.toString()));
        ProcessBuilder child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED", "-cp", System.getProperty("java.class.path"),
                GraphSupport.class.getName(), "all");
        child.environment().put("LD_LIBRARY_PATH", folder + ":" + System.getenv("STARLING_CUDNN"));
        assertThat(run(child)).contains(" 0 refused");
    }

    private static String run(ProcessBuilder command) throws Exception {
        Path output = Files.createTempFile("starling-output", ".txt");
        Process process = command.redirectErrorStream(true).redirectOutput(output.toFile()).start();
        boolean ended = process.waitFor(55, TimeUnit.MINUTES);
        process.destroyForcibly();
        String text = Files.readString(output, StandardCharsets.UTF_8);
        Files.delete(output);
        assertThat(ended && process.exitValue() == 0).as(text).isTrue();
        return text;
    }
}
