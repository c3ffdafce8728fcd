package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Kills the process of a server under load repeatedly: no acknowledged update is lost or applied twice. */
@Tag("processes")
@Timeout(240)
public class ServerCrashTest {
    /** Minimum number of acknowledgements from each process before it is killed, on machines of any speed. */
    private static final int MIN_ACKNOWLEDGEMENTS = 100;

    @TempDir
    Path directory;

    /** Starts a program of this class path with this JVM's flags. */
    public static Process start(Class<?> program, String heap, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
            if (flag.startsWith("--") || flag.startsWith("-Djava.io.tmpdir")) {
                command.add(flag);
            }
        }
        command.addAll(List.of(heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    @Test
    void acknowledgedUpdatesSurviveKillsExactlyOnce() throws IOException, InterruptedException {
        surviveKills(2);
    }

    @Test
    @Tag("stress")
    void acknowledgedUpdatesSurviveManyKillsExactlyOnce() throws IOException, InterruptedException {
        surviveKills(12);
    }

    private void surviveKills(int kills) throws IOException, InterruptedException {
        int slots = ServerProgram.WORKERS * (ServerProgram.UNITS + 1);
        long[] acknowledged = new long[slots];
        Arrays.fill(acknowledged, -1);
        Random random = new Random(5);
        for (int kill = 0; kill < kills; kill++) {
            Process server = start(ServerProgram.class, "-Xmx256m", directory.toString());
            try {
                DataInputStream in = new DataInputStream(new BufferedInputStream(server.getInputStream()));
                for (int i = 0; i < slots; i++) {
                    int slot = -1 - in.readInt();
                    long known = in.readLong();
                    assertThat(known).as("what the server knows of %d after kill %d", slot, kill)
                            .isGreaterThanOrEqualTo(acknowledged[slot]);
                    // At most one more push was in flight.
                    assertThat(known).isLessThanOrEqualTo(acknowledged[slot] + 1);
                    acknowledged[slot] = known;
                }
                long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(300 + random.nextInt(700));
                for (int received = 0; received < MIN_ACKNOWLEDGEMENTS || System.nanoTime() < end; received++) {
                    int slot = in.readInt();
                    acknowledged[slot] = Math.max(acknowledged[slot], in.readLong());
                }
                // Through the handle, which leaves the streams open for buffered output.
                server.toHandle().destroyForcibly();
                drain(in, acknowledged);
            } finally {
                server.destroyForcibly().waitFor();
            }
        }
        check(acknowledged);
    }

    private static void drain(DataInputStream in, long[] acknowledged) throws IOException {
        try {
            while (true) {
                int slot = in.readInt();
                acknowledged[slot] = Math.max(acknowledged[slot], in.readLong());
            }
        } catch (EOFException killed) {
            // the end of the killed process's output
        }
    }

    /** Every gradient is 1 and the rate is 1, so weights show the number of updates. */
    private void check(long[] acknowledged) throws InterruptedException {
        int stride = ServerProgram.UNITS + 1;
        try (ServerDriver d = new ServerDriver(ServerProgram.config(directory), ServerProgram.plan())) {
            long[] known = new long[acknowledged.length];
            for (int slot = 0; slot < acknowledged.length; slot++) {
                known[slot] = d.join(slot / stride, 7, slot % stride).sequence();
                assertThat(known[slot]).isBetween(acknowledged[slot], acknowledged[slot] + 1);
            }
            for (int unit = 0; unit < ServerProgram.UNITS; unit++) {
                float updates = 0;
                for (int w = 0; w < ServerProgram.WORKERS; w++) {
                    updates += known[w * stride + unit] + 1;
                }
                assertThat(d.pull(unit)).as("unit %d", unit).containsOnly(-updates);
            }
            int[] expected = new int[2 * ServerProgram.ROWS];
            for (int w = 0; w < ServerProgram.WORKERS; w++) {
                for (long k = 0; k <= known[w * stride + ServerProgram.UNITS]; k++) {
                    for (int i = 0; i < 8; i++) {
                        long key = ServerProgram.keyOf(k * ServerProgram.WORKERS + w, i);
                        expected[(int) key + ServerProgram.ROWS]++;
                    }
                }
            }
            for (int row = 0; row < expected.length; row++) {
                float[] values = d.request(d.request.pullRows(ServerProgram.UNITS,
                        new long[]{row - ServerProgram.ROWS})).floats();
                for (float value : values) {
                    assertThat(value).as("row %d", row - ServerProgram.ROWS).isEqualTo(0f - expected[row]);
                }
            }
        }
    }
}
