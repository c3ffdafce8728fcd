package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.train.MlpSoak.Reading;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Memory over a long run, measured in a process of its own so that other tests do not influence it. */
@Tag("stress")
class FlatMemoryTest {
    private static final int STEPS = 100_000;

    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    @EnabledOnOs(value = OS.LINUX, disabledReason = "resident memory is read from /proc")
    void keepsResidentMemoryWithinOnePerCent() throws IOException, InterruptedException {
        List<Reading> readings = soak(STEPS);
        Reading warm = readings.getFirst();
        Reading last = readings.getLast();
        assertThat(warm.step()).isEqualTo(MlpSoak.WARM_UP_STEPS);
        assertThat(last.step()).isEqualTo(STEPS);
        assertThat(last.residentKib()).isCloseTo(warm.residentKib(), within(warm.residentKib() / 100));
        assertThat(last.systemAllocations()).isEqualTo(warm.systemAllocations());
    }

    private static List<Reading> soak(int steps) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC",
                "-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch", "-XX:+UnlockExperimentalVMOptions",
                "-XX:TrimNativeHeapInterval=500", "-cp", System.getProperty("java.class.path"),
                MlpSoak.class.getName(), Integer.toString(steps)).redirectError(Redirect.INHERIT).start();
        List<Reading> readings = new ArrayList<>();
        try (BufferedReader output = process.inputReader()) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                System.out.println(line);
                readings.add(Reading.parse(line));
            }
            assertThat(process.waitFor()).isZero();
        } finally {
            process.destroyForcibly();
        }
        return readings;
    }
}
