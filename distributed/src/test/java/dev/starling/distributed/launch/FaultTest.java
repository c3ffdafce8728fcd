package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.spi.WireProvider.Availability;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.DatagramChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Trainings in separate processes, some of which are killed, stopped, given wrong settings or run out of memory. */
@Tag("processes")
@Timeout(180)
class FaultTest {
    private static final int STOP = 19;
    private static final int CONT = 18;
    private static final Duration LIVENESS_TIMEOUT = Duration.ofMillis(2500);
    /** Time limit for detecting a loss and agreeing on it, on a busy machine. */
    private static final Duration DETECTION_TIMEOUT = Duration.ofSeconds(20);
    private static final Duration TIMEOUT = Duration.ofSeconds(90);
    /** Time beyond the liveness timeout until all ranks are notified, on a busy machine. */
    private static final Duration SLACK = Duration.ofSeconds(4);

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();
    private final List<Process> others = new ArrayList<>();
    private final List<String> launched = new ArrayList<>();
    private Set<String> before;
    private Path stop;

    @TempDir
    Path dir;

    @BeforeEach
    void recordFiles() {
        before = files();
        stop = dir.resolve("stop");
    }

    @AfterEach
    void checkFiles() {
        others.forEach(Process::destroyForcibly);
        String own = "starling-aeron-" + ProcessHandle.current().pid() + "-";
        Set<String> left = files();
        left.removeAll(before);
        assertThat(left.stream().filter(name -> launched.contains(name) || name.startsWith(own))).isEmpty();
    }

    private Launcher training(String strategy, int processes) {
        return training(strategy, "aeron", processes, LIVENESS_TIMEOUT, TIMEOUT);
    }

    private Launcher training(String strategy, String transport, int processes, Duration livenessTimeout,
            Duration timeout) {
        return Launcher.ofJava(TrainingProgram.class, strategy, transport, Long.toString(livenessTimeout.toMillis()),
                        Long.toString(timeout.toMillis()), stop.toString())
                .processes(processes).servers(strategy.startsWith("ps") ? 1 : 0).output(out, err)
                .tolerate(processes - 1)
                .coordinator((secret, directory, world) -> CoordinatorThread.start(Coordinator.open(
                        TrainingProgram.transport(transport, secret).directory(directory)
                                .livenessTimeout(livenessTimeout), world,
                        onLoss(strategy), 1, Duration.ofSeconds(60))));
    }

    private Launch started(Launch launch) {
        launched.add(launch.directory().getFileName().toString());
        return launch;
    }

    private static OnLoss onLoss(String strategy) {
        return strategy.equals("ring") ? OnLoss.END : OnLoss.REFORM;
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "ucx"})
    void trainsOver(String transport) throws Exception {
        assumeTrue(Transport.providers().get(transport).availability() instanceof Availability.Ready, "not here");
        try (Launch launch = started(training("ring", transport, 2, LIVENESS_TIMEOUT, TIMEOUT).start())) {
            eventually(() -> steps(0) > 100);
            assertSucceeds(launch);
            assertFinishedEqual(2, 0, 1);
        }
    }

    @Test
    void notifiesAllOfAKilledWorker() throws Exception {
        try (Launch launch = started(training("ring", 3).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(1), Signals.KILL);
            LaunchException e = failure(launch, DETECTION_TIMEOUT);
            assertThat(e.rank()).isEqualTo(1);
            assertThat(e.status()).isEqualTo(137);
            assertNotified(0, 1);
            assertNotified(2, 1);
        }
    }

    /** In the short tests {@link #acceptsAReplacement} kills a worker of such a group. */
    @Test
    @Tag("stress")
    void continuesWithoutAKilledWorker() throws Exception {
        try (Launch launch = started(training("elastic", 3).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(1), Signals.KILL);
            eventually(() -> steps(2) > steps(1) + 20);
            assertSucceeds(launch);
            assertFinishedEqual(2, 0, 2);
        }
    }

    @Test
    void startsWithoutAWorkerThatIsKilledBeforeItJoins() throws Exception {
        startWithoutAWorkerThatIsKilledBeforeItJoins("elastic");
    }

    @Test
    @Tag("stress")
    void gossipsWithoutAWorkerThatIsKilledBeforeItJoins() throws Exception {
        startWithoutAWorkerThatIsKilledBeforeItJoins("gossip");
    }

    private void startWithoutAWorkerThatIsKilledBeforeItJoins(String strategy) throws Exception {
        try (Launch launch = started(training(strategy, 3).start())) {
            eventually(() -> launch.pid(1) != 0);
            Signals.send(launch.pid(1), Signals.KILL);
            eventually(() -> steps(0) > 3 && steps(2) > 3);
            assertThat(steps(1)).isZero();
            assertSucceeds(launch);
        }
    }

    @Test
    void notifiesAllOfAStoppedWorkerAndTheWorkerItself() throws Exception {
        try (Launch launch = started(training("ring", 3).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(2), STOP);
            eventually(() -> last(0).startsWith("failed") && last(1).startsWith("failed"));
            for (int rank = 0; rank < 2; rank++) {
                // Both counted it as a member until shortly before they lost it.
                assertThat(assertNotified(rank, 2)).isBetween(LIVENESS_TIMEOUT.toMillis(),
                        LIVENESS_TIMEOUT.plus(SLACK).toMillis());
            }
            Signals.send(launch.pid(2), CONT);
            failure(launch, DETECTION_TIMEOUT);
            assertThat(last(2)).startsWith("failed: PeerLostException").contains("is lost, last heard");
        }
    }

    @Test
    @Tag("stress")
    void continuesWithoutAStoppedWorkerAndNotifiesIt() throws Exception {
        try (Launch launch = started(training("elastic", 3).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(0), STOP);
            int then = steps(1);
            eventually(() -> steps(1) > then + 30);
            Signals.send(launch.pid(0), CONT);
            eventually(() -> last(0).startsWith("failed"));
            assertSucceeds(launch);
            assertFinishedEqual(2, 1, 2);
        }
    }

    @Test
    @Tag("stress")
    void continuesWithoutAStoppedWorkerUnderBoundedStalenessAndReadmitsIt() throws Exception {
        continueWithoutAStoppedWorker("ps-stale");
    }

    @Test
    @Tag("stress")
    void continuesWithoutAStoppedAsynchronousWorkerAndReadmitsIt() throws Exception {
        continueWithoutAStoppedWorker("ps");
    }

    private void continueWithoutAStoppedWorker(String strategy) throws Exception {
        try (Launch launch = started(training(strategy, 3).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            Signals.send(launch.pid(1), STOP);
            eventually(() -> has(0, "members 2"));
            int then = steps(0);
            eventually(() -> steps(0) > then + 20);
            Signals.send(launch.pid(1), CONT);
            awaitReunion(0);
            assertSucceeds(launch);
            for (int rank = 0; rank < 3; rank++) {
                assertThat(last(rank)).startsWith("done");
            }
        }
    }

    /** Waits until a rank that continued without another reaches it again, and both workers take steps. */
    private void awaitReunion(int rank) throws InterruptedException {
        eventually(() -> output(rank).stream().dropWhile(l -> !l.equals("members 2")).anyMatch("members 3"::equals));
        int[] back = {steps(0), steps(1)};
        eventually(() -> steps(0) > back[0] + 20 && steps(1) > back[1] + 20);
    }

    @Test
    @Tag("stress")
    void continuesWhenAStoppedServerReturns() throws Exception {
        try (Launch launch = started(training("ps", 3).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            Signals.send(launch.pid(2), STOP);
            eventually(() -> has(0, "members 2") && has(1, "members 2"));
            Signals.send(launch.pid(2), CONT);
            awaitReunion(0);
            assertSucceeds(launch);
            for (int rank = 0; rank < 3; rank++) {
                assertThat(last(rank)).startsWith("done");
            }
        }
    }

    @Test
    @Tag("stress")
    void gossipsWithoutAStoppedWorkerAndReadmitsIt() throws Exception {
        try (Launch launch = started(training("gossip", 3).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3 && steps(2) > 3);
            Signals.send(launch.pid(2), STOP);
            eventually(() -> has(0, "members 2") && has(1, "members 2"));
            int then = Math.max(steps(0), steps(1));
            eventually(() -> steps(0) > then + 20 && steps(1) > then + 20);
            Signals.send(launch.pid(2), CONT);
            for (int rank = 0; rank < 3; rank++) {
                int each = rank;
                eventually(() -> output(each).stream().dropWhile(l -> !l.equals("members 2") && each < 2)
                        .anyMatch(l -> l.equals("members 3")));
            }
            int[] back = {steps(0), steps(1), steps(2)};
            eventually(() -> steps(0) > back[0] + 20 && steps(1) > back[1] + 20 && steps(2) > back[2] + 20);
            assertSucceeds(launch);
            for (int rank = 0; rank < 3; rank++) {
                assertThat(last(rank)).startsWith("done");
            }
        }
    }

    @Test
    @Tag("stress")
    void waitsForAServerThatIsStoppedBriefly() throws Exception {
        try (Launch launch = started(training("ps", "aeron", 3, Duration.ofSeconds(20), TIMEOUT).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            Signals.send(launch.pid(2), STOP);
            awaitStandstill();
            int then = Math.max(steps(0), steps(1));
            Signals.send(launch.pid(2), CONT);
            eventually(() -> steps(0) > then + 20 && steps(1) > then + 20);
            assertSucceeds(launch);
            for (int rank = 0; rank < 3; rank++) {
                assertThat(last(rank)).startsWith("done");
                assertThat(output(rank)).doesNotContain("members 2");
            }
        }
    }

    @Test
    @Tag("stress")
    void notifiesWorkersOfAServerThatStaysStopped() throws Exception {
        Duration timeout = Duration.ofSeconds(6);
        try (Launch launch = started(training("ps", "aeron", 3, LIVENESS_TIMEOUT, timeout).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            Signals.send(launch.pid(2), STOP);
            eventually(() -> last(0).startsWith("failed") && last(1).startsWith("failed"));
            for (int rank = 0; rank < 2; rank++) {
                assertThat(assertNotified(rank, 2, timeout)).isBetween(LIVENESS_TIMEOUT.toMillis(),
                        timeout.plus(SLACK).toMillis());
            }
            Signals.send(launch.pid(2), CONT);
            failure(launch, DETECTION_TIMEOUT);
        }
    }

    /** Waits until no worker has taken a step for a while. */
    private void awaitStandstill() throws InterruptedException {
        int[] seen = {-1, 0};
        eventually(() -> {
            int now = steps(0) + steps(1);
            seen[1] = now == seen[0] ? seen[1] + 1 : 0;
            seen[0] = now;
            return seen[1] > 50;
        });
    }

    @Test
    void acceptsAReplacement() throws Exception {
        try (Launch launch = started(training("elastic", 3).restarts(1).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(2), Signals.KILL);
            eventually(() -> err.toString(StandardCharsets.UTF_8).contains("restarted in"));
            int then = steps(2);
            eventually(() -> has(0, "members 3") && steps(2) > then + 10);
            assertSucceeds(launch);
            assertFinishedEqual(3, 0, 1, 2);
        }
    }

    @Test
    @Tag("stress")
    void gossipsWithoutAKilledWorkerAndWithItsReplacement() throws Exception {
        try (Launch launch = started(training("gossip", 3).restarts(1).start())) {
            eventually(() -> steps(2) > 3);
            Signals.send(launch.pid(2), Signals.KILL);
            eventually(() -> err.toString(StandardCharsets.UTF_8).contains("restarted in"));
            int then = steps(2);
            eventually(() -> steps(2) > then + 10);
            assertSucceeds(launch);
            for (int rank = 0; rank < 3; rank++) {
                assertThat(last(rank)).startsWith("done").doesNotContain("mixed 0");
            }
        }
    }

    @Test
    @Tag("stress")
    void continuesWhenAKilledServerReturns() throws Exception {
        try (Launch launch = started(training("ps", 3).restarts(1).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            Signals.send(launch.pid(2), Signals.KILL);
            eventually(() -> err.toString(StandardCharsets.UTF_8).contains("restarted in"));
            int then = Math.max(steps(0), steps(1));
            eventually(() -> steps(0) > then + 10 && steps(1) > then + 10);
            assertSucceeds(launch);
            assertThat(last(0)).startsWith("done");
            assertThat(last(1)).startsWith("done");
            assertThat(last(2)).startsWith("done");
        }
    }

    @Test
    @Tag("stress")
    void continuesWithoutACoordinatorUntilALoss() throws Exception {
        Secret secret = Secret.random();
        Process coordinator = coordinator(secret, OnLoss.END, 3, 0);
        String address = coordinator.inputReader().readLine().substring("coordinator ".length());
        try (Launch launch = started(training("ring", 3).coordinator((CoordinatorFactory) null).coordinator(address)
                .secret(secret).start())) {
            eventually(() -> steps(2) > 3);
            coordinator.destroyForcibly();
            for (int rank = 0; rank < 3; rank++) {
                awaitStepsWithoutCoordinator(rank);
            }
            Signals.send(launch.pid(1), Signals.KILL);
            failure(launch, DETECTION_TIMEOUT);
            assertNotified(0, 1);
            assertNotified(2, 1);
        }
    }

    /** As where the coordinator runs in the process of rank 0. */
    @Test
    void survivesTheLossOfCoordinatorAndRankZero() throws Exception {
        survivesTheLossOfTheCoordinatorAnd(0, "elastic", 1, 2);
        assertFinishedEqual(2, 1, 2);
    }

    @ParameterizedTest
    @ValueSource(strings = {"gossip", "ps"})
    @Tag("stress")
    void survivesTheLossOfCoordinatorAndAWorker(String strategy) throws Exception {
        survivesTheLossOfTheCoordinatorAnd(1, strategy, 0, 2);
        assertThat(last(0)).startsWith("done");
        assertThat(last(2)).startsWith("done");
    }

    private void survivesTheLossOfTheCoordinatorAnd(int lost, String strategy, int first, int second)
            throws Exception {
        Secret secret = Secret.random();
        Process coordinator = coordinator(secret, OnLoss.REFORM, 3, 0);
        String address = coordinator.inputReader().readLine().substring("coordinator ".length());
        try (Launch launch = started(training(strategy, 3).coordinator((CoordinatorFactory) null).coordinator(address)
                .secret(secret).start())) {
            eventually(() -> steps(0) > 3 && steps(1) > 3);
            long begin = System.nanoTime();
            coordinator.destroyForcibly();
            Signals.send(launch.pid(lost), Signals.KILL);
            eventually(() -> has(first, "members 2") && has(second, "members 2"));
            int then = steps(first);
            eventually(() -> steps(first) > then);
            Duration paused = Duration.ofNanos(System.nanoTime() - begin);
            System.out.println("steps after " + paused.toMillis() + " ms");
            assertThat(paused).isLessThan(LIVENESS_TIMEOUT.multipliedBy(2).plus(SLACK));
            assertSucceeds(launch);
        }
    }

    private void awaitStepsWithoutCoordinator(int rank) throws InterruptedException {
        eventually(() -> output(rank).stream().filter(l -> l.endsWith("without coordinator")).count() > 20);
    }

    @Test
    @Tag("stress")
    void refusesAStrangerWithoutDisturbingMembers() throws Exception {
        Secret secret = Secret.random();
        Process coordinator = coordinator(secret, OnLoss.END, 2, 0);
        String address = coordinator.inputReader().readLine().substring("coordinator ".length());
        ByteArrayOutputStream strange = new ByteArrayOutputStream();
        try (Launch stranger = started(training("ring", 2).coordinator((CoordinatorFactory) null).coordinator(address)
                .output(strange, strange).start());
                Launch launch = started(training("ring", 2).coordinator((CoordinatorFactory) null)
                        .coordinator(address).secret(secret).start())) {
            eventually(() -> steps(1) > 100);
            assertSucceeds(launch);
            assertFinishedEqual(2, 0, 1);
            failure(stranger, TIMEOUT);
            assertThat(strange.toString(StandardCharsets.UTF_8)).contains("failed").contains(address)
                    .contains("secret");
        }
    }

    @Test
    void namesAPortInUse() throws Exception {
        try (DatagramChannel occupied = DatagramChannel.open().bind(new InetSocketAddress("127.0.0.1", 0))) {
            int port = ((InetSocketAddress) occupied.getLocalAddress()).getPort();
            Process coordinator = coordinator(Secret.random(), OnLoss.END, 2, port);
            String output = String.join("\n", coordinator.inputReader().lines().toList());
            assertThat(coordinator.waitFor(20, TimeUnit.SECONDS)).isTrue();
            assertThat(coordinator.exitValue()).isEqualTo(1);
            assertThat(output).contains("failed").contains(Integer.toString(port)).containsIgnoringCase("in use");
        }
    }

    @Test
    void namesFullSharedMemory() throws Exception {
        Path unshare = Path.of("/usr/bin/unshare");
        assumeTrue(Files.isExecutable(unshare), "unshare is not installed");
        assumeTrue("root".equals(System.getProperty("user.name")), "only root may mount a small /dev/shm");
        List<String> command = new ArrayList<>(List.of(unshare.toString(), "-m", "sh", "-c",
                "mount -t tmpfs -o size=1m none /dev/shm && exec \"$@\"", "sh"));
        command.addAll(JavaCommand.of(TrainingProgram.class, List.of("coordinator", "aeron", "1000", "END", "2",
                "0")));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().put(LaunchedProcess.SECRET, Secret.random().toHex());
        Process process = builder.start();
        others.add(process);
        String output = String.join("\n", process.inputReader().lines().toList());
        assertThat(process.waitFor(20, TimeUnit.SECONDS)).isTrue();
        assertThat(output).startsWith("failed").contains("/dev/shm").contains("full").contains("size=");
    }

    private Process coordinator(Secret secret, OnLoss onLoss, int world, int port) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(JavaCommand.of(TrainingProgram.class, List.of("coordinator",
                "aeron", Long.toString(LIVENESS_TIMEOUT.toMillis()), onLoss.name(), Integer.toString(world),
                Integer.toString(port))));
        builder.environment().put(LaunchedProcess.SECRET, secret.toHex());
        // A killed coordinator leaves files.
        builder.environment().put(LaunchedProcess.DIRECTORY, dir.toString());
        Process process = builder.redirectError(ProcessBuilder.Redirect.DISCARD).start();
        others.add(process);
        return process;
    }

    private void assertFinishedEqual(int world, int... ranks) {
        Set<String> bits = new TreeSet<>();
        for (int rank : ranks) {
            assertThat(last(rank)).startsWith("done").contains(" of " + world + ", ");
            bits.add(last(rank).replaceAll(".*, (\\d+ steps, bits .*)", "$1"));
        }
        assertThat(bits).hasSize(1);
    }

    private void assertSucceeds(Launch launch) throws Exception {
        Files.createFile(stop);
        try {
            assertThat(launch.await(TIMEOUT)).isZero();
        } catch (TimeoutException | LaunchException e) {
            throw new AssertionError("output so far: " + out + err, e);
        }
    }

    private LaunchException failure(Launch launch, Duration limit) {
        return catchThrowableOfType(LaunchException.class, () -> launch.await(limit));
    }

    /**
     * Checks that a rank was notified in time of the loss of another; returns for how many ms the lost one had been
     * silent.
     */
    private long assertNotified(int rank, int lost) {
        return assertNotified(rank, lost, LIVENESS_TIMEOUT);
    }

    private long assertNotified(int rank, int lost, Duration deadline) {
        assertThat(last(rank)).startsWith("failed: PeerLostException")
                .contains("rank " + lost + " is lost, last heard");
        String[] report = output(rank).stream().filter(l -> l.startsWith("lost")).findFirst().orElseThrow().split(" ");
        assertThat(report[1]).isEqualTo(Integer.toString(lost));
        assertThat(Long.parseLong(report[3])).as("ms from the last step until rank %d was notified", rank)
                .isLessThan(deadline.plus(SLACK).toMillis());
        return Long.parseLong(report[2]);
    }

    /** Returns the lines that a rank has printed so far. */
    private List<String> output(int rank) {
        String prefix = "[" + rank + "] ";
        return out.toString(StandardCharsets.UTF_8).lines().filter(l -> l.startsWith(prefix))
                .map(l -> l.substring(prefix.length())).toList();
    }

    private String last(int rank) {
        List<String> lines = output(rank);
        return lines.isEmpty() ? "" : lines.getLast();
    }

    private boolean has(int rank, String line) {
        return output(rank).contains(line);
    }

    private int steps(int rank) {
        return (int) output(rank).stream().filter(l -> l.startsWith("step")).count();
    }

    private void eventually(BooleanSupplier holds) throws InterruptedException {
        long until = System.nanoTime() + TIMEOUT.toNanos();
        while (!holds.getAsBoolean()) {
            assertThat(System.nanoTime()).as(() -> "so far: " + out + err).isLessThan(until);
            Thread.sleep(10);
        }
    }

    private static Set<String> files() {
        try (Stream<Path> shared = Files.list(Path.of("/dev/shm"));
                Stream<Path> temporary = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            return Stream.concat(shared, temporary).map(p -> p.getFileName().toString()).collect(Collectors.toSet());
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
