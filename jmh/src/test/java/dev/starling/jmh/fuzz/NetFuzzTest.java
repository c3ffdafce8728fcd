package dev.starling.jmh.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Random networks compared with libtorch, and with themselves; see {@link NetFuzz}. They run in a child process, so
 * that a crash becomes a finding; another child continues after the seed that crashed. The properties {@code nets.from}
 * and {@code nets.count} select the seeds of the long test.
 */
class NetFuzzTest {
    private static final int SHORT = 25;
    /** Ends a child that hangs: reading its output cannot be interrupted. */
    private static final Duration SHORT_LIMIT = Duration.ofSeconds(110);
    private static final Duration LONG_LIMIT = Duration.ofHours(3);

    @Test
    @Timeout(120)
    void trainsAsLibtorchDoes() throws IOException, InterruptedException {
        assertThat(findings(0, SHORT, SHORT_LIMIT)).isEmpty();
    }

    @Test
    @Tag("stress")
    @Timeout(14_400)
    void trainsAsLibtorchDoesForLong() throws IOException, InterruptedException {
        assertThat(findings(Long.getLong("nets.from", SHORT), Long.getLong("nets.count", 10_000),
                LONG_LIMIT)).isEmpty();
    }

    /** A crash ends one child only, and is reported with its seed. */
    @Test
    @Timeout(120)
    void reportsACrash() throws IOException, InterruptedException {
        assertThat(findings(NetFuzz.CRASH, 1, SHORT_LIMIT)).singleElement().asString().contains("seed " + NetFuzz.CRASH)
                .contains("crashed");
    }

    private static List<String> findings(long from, long count, Duration limit) throws IOException,
            InterruptedException {
        List<String> findings = new ArrayList<>();
        long next = from;
        while (next < from + count) {
            ProcessBuilder builder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java")
                    .toString(), "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "-Xmx1g",
                    "-XX:+UseSerialGC", "-XX:-CreateCoredumpOnCrash", "-XX:ErrorFile=/dev/null", "-cp",
                    System.getProperty("java.class.path"), NetFuzz.class.getName(), Long.toString(next),
                    Long.toString(from + count - next));
            builder.redirectErrorStream(true);
            Process child = builder.start();
            Future<?> end = CompletableFuture.runAsync(child::destroyForcibly,
                    CompletableFuture.delayedExecutor(limit.toSeconds(), TimeUnit.SECONDS));
            long seed = next;
            boolean done = false;
            List<String> last = new ArrayList<>();
            try (BufferedReader lines = child.inputReader()) {
                StringBuilder finding = null;
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    if (line.startsWith("finding ")) {
                        finding = new StringBuilder(line);
                    } else if (finding != null && line.startsWith("  ")) {
                        finding.append('\n').append(line);
                    } else {
                        if (finding != null) {
                            findings.add(finding.toString());
                            finding = null;
                        }
                        seed = line.matches("seed \\d+") ? Long.parseLong(line.substring(5)) : seed;
                        done |= line.startsWith("done ");
                        last.add(line);
                    }
                }
            } finally {
                end.cancel(false);
                child.destroy();
            }
            int status = child.waitFor();
            if (!done) {
                findings.add("seed " + seed + " crashed, with status " + status + ": "
                        + last.subList(Math.max(0, last.size() - 12), last.size()));
            }
            next = done ? from + count : seed + 1;
        }
        return findings;
    }
}
