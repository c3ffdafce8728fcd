package dev.starling.distributed.soak;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.launch.Launch;
import dev.starling.distributed.launch.Launcher;
import dev.starling.transport.TransportConfig;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** As {@link LongRunTest}, with a process for each rank. */
@Timeout(400)
class LongRunProcessesTest {
    private static final int WORLD = 2;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    @TempDir
    Path directory;
    private Path meeting;

    @BeforeEach
    void createMeeting() throws IOException {
        meeting = Files.createDirectory(directory.resolve("meeting"));
    }

    @ParameterizedTest
    @Tag("stress")
    @CsvSource({"ring, aeron", "elastic, aeron", "gossip, aeron", "ps async, aeron", "ps stale, aeron",
        "ps sync, aeron"})
    void isFlat(String strategy, String wire) throws Exception {
        assertFlat(strategy, wire, 10_000);
    }

    private void assertFlat(String strategy, String wire, long steps) throws Exception {
        OnLoss onLoss = strategy.equals("ring") ? OnLoss.END : OnLoss.REFORM;
        List<String> own = new ArrayList<>();
        int world = strategy.startsWith("ps") ? WORLD + 1 : WORLD;
        try (Launch launch = Launcher.of(command(strategy, wire, steps)).processes(world).output(out, err)
                .coordinator((secret, files, all) -> CoordinatorThread.start(Coordinator.open(
                        TransportConfig.of(wire, secret).directory(files).livenessTimeout(Duration.ofSeconds(20)), all,
                        onLoss, 1, Duration.ofSeconds(60)))).start()) {
            own.add(launch.directory().getFileName().toString());
            own.add("starling-aeron-" + ProcessHandle.current().pid() + "-");
            for (int rank = 0; rank < world; rank++) {
                own.add("starling-aeron-" + launch.pid(rank) + "-");
            }
            assertThat(launch.await()).as(() -> text(out) + text(err)).isZero();
        }
        for (int rank = 0; rank < world; rank++) {
            String from = "[" + rank + "] ";
            List<String> lines = text(out).lines().filter(line -> line.startsWith(from))
                    .map(line -> line.substring(from.length())).toList();
            List<ResourceUsage> usage = lines.stream().filter(line -> line.startsWith("held "))
                    .map(line -> ResourceUsage.parse(line.substring(5))).toList();
            if (rank < WORLD) {
                ResourceUsage.assertFlat(usage.get(0), usage.get(1), usage.get(2));
                ResourceUsage.assertResidentFlat(usage.get(0), usage.get(2));
            }
            assertThat(lines).noneMatch(line -> line.startsWith("left "));
        }
        assertThat(files()).noneMatch(name -> own.stream().anyMatch(name::startsWith));
    }

    /** Returns the command of a member, whose heap is touched at the start. */
    private List<String> command(String strategy, String wire, long steps) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream().filter(flag -> flag.startsWith("--"))
                .forEach(command::add);
        command.addAll(List.of("-Xms96m", "-Xmx96m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-cp",
                System.getProperty("java.class.path"), LongRunProgram.class.getName(), strategy, wire,
                Long.toString(steps), meeting.toString()));
        return command;
    }

    private static String text(ByteArrayOutputStream to) {
        return to.toString(StandardCharsets.UTF_8);
    }

    private static Set<String> files() throws IOException {
        try (Stream<Path> memory = Files.list(Path.of("/dev/shm"));
                Stream<Path> temporary = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            return Stream.concat(memory, temporary).map(path -> path.getFileName().toString())
                    .collect(Collectors.toCollection(TreeSet::new));
        }
    }
}
