package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.errors.ThreadException;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.ThreadLimit;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Real processes, mostly shells, that end in various ways: successfully, with an error, by a signal, never. */
@Tag("processes")
@Timeout(60)
class LauncherTest {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();
    /** Part of the command line of every started process, to find it by. */
    private static final String AFTER_THE_OTHER = "while [ ! -e $STARLING_DIRECTORY/ready ]; do sleep 0.05; done; ";

    private final String mark = "launcher-test-" + System.nanoTime();

    private final List<Process> launchers = new ArrayList<>();

    @TempDir
    Path dir;

    @AfterEach
    void checkNothingIsLeft() {
        launchers.forEach(Process::destroyForcibly);
        eventually(() -> marked().isEmpty(), () -> "still there: " + marked());
        eventually(() -> threads().isEmpty(), () -> "still there: " + threads());
    }

    private Launcher shell(String script) {
        return Launcher.of(List.of("/bin/sh", "-c", script, mark, dir.toString())).output(out, err)
                .grace(Duration.ofSeconds(10));
    }

    @Test
    void isIndependentOfItsCopies() {
        Launcher launcher = shell("echo $STARLING_WORLD $MORE").processes(2).environment("MORE", "before");
        launcher.processes(3).environment("MORE", "after");
        assertThat(launcher.run()).isZero();
        assertThat(lines(out)).containsExactlyInAnyOrder("[0] 2 before", "[1] 2 before");
    }

    @Test
    void doesWithoutSessionsThatTheSystemRefuses() throws IOException {
        Path refused = dir.resolve("setsid");
        Files.writeString(refused, "#!/bin/sh\nexit 1\n");
        assertThat(refused.toFile().setExecutable(true)).isTrue();
        assertThat(Launcher.session(List.of(dir.resolve("none"), refused))).isEmpty();
        Files.writeString(refused, "#!/bin/sh\nexec \"$@\"\n");
        assertThat(Launcher.session(List.of(refused))).containsExactly(refused.toString());
    }

    @Test
    void describesEachProcessInItsEnvironment() {
        int status = shell("echo $STARLING_RANK of $STARLING_WORLD, $STARLING_SERVERS serve, at $STARLING_COORDINATOR,"
                + " $STARLING_LOCAL_RANK of $STARLING_LOCAL_WORLD here; echo bad $MORE >&2").processes(11).servers(1)
                .coordinator("here:1").environment("MORE", "news").run();
        assertThat(status).isZero();
        assertThat(lines(out)).contains("[ 9] 9 of 11, 1 serve, at here:1, 9 of 11 here").hasSize(11);
        assertThat(lines(err)).contains("[ 0] bad news");
    }

    /** As where the launcher is itself a process of a job. */
    @Test
    void placesEachProcessWhateverThePlaceOfTheLauncher() throws Exception {
        ProcessBuilder builder = new ProcessBuilder(JavaCommand.of(LaunchingProgram.class, List.of("/bin/sh", "-c",
                "echo place $STARLING_LOCAL_RANK $STARLING_ROLE", mark)))
                .redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().putAll(Map.of("STARLING_LOCAL_RANK", "7", "STARLING_ROLE", "server"));
        launchers.add(builder.start());
        assertThat(rest(launchers.getLast())).contains("[0] place 0\n[1] place 1\n[2] place 2");
    }

    @Test
    void passesTheSecretInAFileThatOnlyThisUserCanRead() throws IOException {
        Path copy = dir.resolve("copy");
        try (Launch launch = shell("cat $STARLING_SECRET_FILE > " + copy + "; stat -c %a $STARLING_SECRET_FILE;"
                + " stat -c %a $STARLING_DIRECTORY; sleep 1; ps -o args= -e").start()) {
            Path directory = launch.directory();
            assertThat(directory).exists();
            assertThat(launch.await()).isZero();
            assertThat(directory).doesNotExist();
        }
        String secret = Files.readString(copy);
        assertThat(secret).matches("[0-9a-f]{64}");
        assertThat(lines(out)).startsWith("[0] 600", "[0] 700");
        assertThat(text(out)).doesNotContain(secret);
    }

    @Test
    void endsAllWhenOneFailsAndReportsIt() {
        LaunchException e = failure(shell("[ $STARLING_RANK = 2 ] || exec sleep 100; "
                + "for i in $(seq 30); do echo line $i; done; echo the reason >&2; exit 7").processes(4));
        assertThat(e.rank()).isEqualTo(2);
        assertThat(e.status()).isEqualTo(7);
        assertThat(e.lastLines()).hasSize(11).endsWith("line 30", "the reason");
        assertThat(e).hasMessageContaining("rank 2").hasMessageContaining("exit status 7")
                .hasMessageContaining("the reason");
    }

    /** A path that is longer than the system allows cannot be deleted by its name. */
    @Test
    void reportsAFailureAlsoWhereFilesRemain() throws Exception {
        LaunchException e = failure(shell("n=$(printf %0200d 0); n=$n/$n/$n/$n/$n/$n/$n/$n; cd $STARLING_DIRECTORY;"
                + " mkdir -p $n; cd $n; mkdir -p $n; cd -P $n; mkdir -p $n; exit 7")
                .environment(LaunchedProcess.DIRECTORY, dir.toString()));
        assertThat(new ProcessBuilder("/bin/sh", "-c", "rm -rf " + dir + "/*").start().waitFor()).isZero();
        assertThat(e.rank()).isZero();
        assertThat(e.status()).isEqualTo(7);
        assertThat(Objects.requireNonNull(e.getCause()).getSuppressed()).as("what remains").hasSize(1);
    }

    @Test
    void writesTheOutputOfEachRankToAFile() throws IOException {
        Path logs = dir.resolve("logs");
        assertThat(shell("echo out $STARLING_RANK; echo bad >&2; [ $STARLING_RANK$STARLING_RESTART != 10 ]")
                .processes(2).restarts(1).backoff(Duration.ofMillis(1)).logs(logs).run()).isZero();
        List<String> first = Files.readAllLines(logs.resolve("rank-0.log"));
        assertThat(first).hasSize(3).contains("out 0", "bad");
        assertThat(first.getFirst()).startsWith("==== rank 0, process ");
        List<String> second = Files.readAllLines(logs.resolve("rank-1.log"));
        assertThat(second).hasSize(6).containsOnlyOnce(second.getFirst());
        assertThat(second.subList(1, 3)).containsExactlyInAnyOrder("out 1", "bad");
        assertThat(second.get(3)).startsWith("==== rank 1, process ").contains(", restart 1, ");
        assertThat(lines(out)).as("shown, too").contains("[0] out 0", "[1] out 1");
    }

    @Test
    void namesTheLogThatCannotBeWritten() throws IOException {
        Path file = Files.createFile(dir.resolve("file"));
        assertThat(failure(shell("exit 0").logs(file).environment(LaunchedProcess.DIRECTORY, dir.toString())))
                .hasMessageContaining("cannot write the log " + file.resolve("rank-0.log"))
                .hasMessageEndingWith("choose another directory for logs");
        assertThat(dir).as("nothing is left").isDirectoryNotContaining("glob:**starling-launch-*");
    }

    @Test
    void reportsAKilledProcess() {
        LaunchException e;
        try (Launch launch = shell("echo here; exec sleep 100").processes(3).start()) {
            eventually(() -> lines(out).size() == 3, () -> text(out));
            Signals.send(launch.pid(1), Signals.KILL);
            e = catchThrowableOfType(LaunchException.class, launch::await);
        }
        assertThat(e.rank()).isEqualTo(1);
        assertThat(e.status()).isEqualTo(137);
        assertThat(e).hasMessageContaining("SIGKILL").hasMessageContaining("here");
    }

    @Test
    void killsProcessesThatDoNotEnd() {
        long begin = System.nanoTime();
        LaunchException e = failure(shell("if [ $STARLING_RANK = 0 ]; then " + AFTER_THE_OTHER + "exit 3; fi; "
                + "trap '' TERM; touch $STARLING_DIRECTORY/ready; while true; do sleep 0.1; done").processes(2)
                .grace(Duration.ofMillis(500)));
        assertThat(e.status()).isEqualTo(3);
        assertThat(System.nanoTime() - begin).isBetween(TimeUnit.MILLISECONDS.toNanos(500),
                TimeUnit.SECONDS.toNanos(20));
    }

    @Test
    void endsDescendantsOfAProcess() {
        LaunchException e = failure(shell("sh -c 'trap \"\" TERM; while true; do sleep 0.1; done' " + mark
                + " & sleep 0.3; exit 5").grace(Duration.ofMillis(300)));
        assertThat(e.status()).isEqualTo(5);
        assertThat(shell("sleep 100 & exit 0").run()).isZero();
    }

    @Test
    void keepsLinesIntactAndInOrderUnderLoad() {
        int lines = 100_000;
        assertThat(shell("seq -f \"line $STARLING_RANK %.0f" + " and much more of it".repeat(3) + "\" " + lines)
                .processes(3).run()).isZero();
        int[] next = {1, 1, 1};
        for (String line : lines(out)) {
            int rank = line.charAt(1) - '0';
            assertThat(line).isEqualTo("[" + rank + "] line " + rank + " " + next[rank]++
                    + " and much more of it".repeat(3));
        }
        assertThat(next).containsOnly(lines + 1);
    }

    @Test
    void breaksAnEndlessLine() {
        assertThat(shell("head -c 1000000 /dev/zero | tr '\\0' x").run()).isZero();
        assertThat(lines(out)).hasSize(16).allMatch(line -> line.length() <= OutputPump.LINE_LIMIT + 4);
        assertThat(text(out).chars().filter(c -> c == 'x').count()).isEqualTo(1_000_000);
    }

    @Test
    void showsTheFirstRankUnchangedAndOthersOnlyIfTheyFail() {
        LaunchException e = failure(shell("if [ $STARLING_RANK = 0 ]; then printf 'a\\rb'; "
                + "touch $STARLING_DIRECTORY/ready; sleep 100; fi; echo why >&2;" + AFTER_THE_OTHER + "exit 9")
                .processes(2).output(Launcher.Output.FIRST_RANK));
        assertThat(text(out)).isEqualTo("a\rb");
        assertThat(text(err)).isEmpty();
        assertThat(e.lastLines()).containsExactly("why");
    }

    /** Starts a launch to whose supervisor the system refuses the thread. */
    static final class Probe {
        private Probe() {
        }

        public static void main(String[] arguments) {
            Path[] files = new Path[1];
            try {
                Launcher.of(List.of("true")).coordinator((secret, directory, processes) -> {
                    files[0] = directory;
                    ThreadLimit.exhaust();
                    return null;
                }).start();
            } catch (ThreadException e) {
                System.out.println(e.getMessage() + (Files.exists(files[0]) ? " leaves " : " deletes ") + "files");
            }
            System.exit(0);
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void leavesNothingIfTheSupervisorCannotStart() throws Exception {
        assertThat(ThreadLimit.run(Probe.class)).containsPattern("the thread starling-launch cannot start: .*"
                + "ulimit -u.* deletes files");
    }

    @Test
    void refusesACommandThatDoesNotExist() {
        for (String name : new String[] {"no-such-command-here", "/etc/passwd", dir.toString()}) {
            assertThatThrownBy(() -> Launcher.of(List.of(name)).run()).isInstanceOf(LaunchException.class)
                    .hasMessageContaining(name).extracting(e -> ((LaunchException) e).status()).isEqualTo(127);
        }
    }

    @Test
    void restartsUpToALimit() {
        String script = "echo start $STARLING_RESTART; [ $STARLING_RANK = 0 ] || exit 0;"
                + " [ $STARLING_RESTART = 2 ] || exit 4";
        assertThat(shell(script).processes(2).restarts(2).backoff(Duration.ofMillis(50)).run()).isZero();
        assertThat(lines(out)).containsOnlyOnce("[0] start 0", "[0] start 1", "[0] start 2", "[1] start 0").hasSize(4);
        assertThat(text(err)).contains("restart 2 of at most 2").contains("50 ms").contains("100 ms");
        assertThat(failure(shell(script).restarts(1).backoff(Duration.ofMillis(1))).status()).isEqualTo(4);
    }

    /** Two workers of a group, of which one may be restarted. */
    private Launcher group(String script) {
        return shell("echo start $STARLING_RESTART; " + script).processes(2).restarts(1).coordinator(
                (secret, directory, world) -> CoordinatorThread.start(Coordinator.open(
                        TransportConfig.of("tcp", secret), world, Coordinator.OnLoss.REFORM, 1,
                        Duration.ofSeconds(60))));
    }

    /** Alone, a restarted worker would train the whole run again. */
    @Test
    void doesNotRestartAWorkerAfterTheEndOfTheRun() {
        Launcher launcher = group("if [ $STARLING_RANK = 1 ]; then touch $STARLING_DIRECTORY/ready; exit 4; fi; "
                + AFTER_THE_OTHER + "exit 0");
        assertThat(launcher.backoff(Duration.ofSeconds(30)).run()).isZero();
        assertThat(lines(out)).containsExactlyInAnyOrder("[0] start 0", "[1] start 0");
        assertThat(text(err)).contains("rank 1 is not restarted");
    }

    /** Restarted, it would train the whole run again alone, and its own steps or results are missing. */
    @Test
    void reportsAWorkerThatFailsAfterAnotherHasFinished() {
        assertThat(failure(group("[ $STARLING_RANK = 0 ] && exit 0; sleep 1; exit 4")).status()).isEqualTo(4);
        assertThat(text(err)).doesNotContain("restarted");
    }

    /** The restarted worker starts before the other one has finished. It joins after it, or fails by itself. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void refusesARestartedWorkerAfterTheEndOfTheRun(boolean joins) throws Exception {
        TransportConfig transport = TransportConfig.of("local", Secret.random());
        CompletableFuture<String> address = new CompletableFuture<>();
        Launcher launcher = shell("if [ $STARLING_RANK = 1 ]; then [ $STARLING_RESTART = 1 ] || exit 4; touch $1/late;"
                + " while [ ! -e $1/refused ]; do sleep 0.01; done; exit 5; fi;"
                + " while [ ! -e $1/left ]; do sleep 0.01; done").processes(2).restarts(1)
                .backoff(Duration.ofMillis(10)).coordinator((secret, directory, world) -> {
                    CoordinatorThread thread = CoordinatorThread.start(Coordinator.open(transport, 1,
                            Coordinator.OnLoss.REFORM, 1, Duration.ofSeconds(60)));
                    address.complete(thread.address());
                    return thread;
                });
        try (Launch launch = launcher.start()) {
            GroupConfig config = GroupConfig.of(transport, address.get(10, TimeUnit.SECONDS));
            Group.join(config).close();
            eventually(() -> Files.exists(dir.resolve("late")), () -> "rank 1 was not restarted: " + text(err));
            Files.createFile(dir.resolve("left"));
            eventually(() -> isRefused(config.preferredRank(joins ? 1 : -1)),
                    () -> "a process still joins: " + text(err));
            Files.createFile(dir.resolve("refused"));
            if (joins) {
                assertThat(launch.await(Duration.ofSeconds(20))).isZero();
                assertThat(text(err)).contains("it is not restarted: the run has finished without it");
            } else {
                assertThat(catchThrowableOfType(LaunchException.class, () -> launch.await(Duration.ofSeconds(20)))
                        .status()).isEqualTo(5);
            }
        }
    }

    /** Rank 1 leaves the group, and ends later than rank 0, which fails because of that, or has to be killed. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void reportsTheProcessBecauseOfWhichOthersFailed(boolean ends) throws Exception {
        TransportConfig transport = TransportConfig.of("local", Secret.random());
        CompletableFuture<String> address = new CompletableFuture<>();
        Launcher launcher = shell("while [ ! -e $1/go ]; do sleep 0.01; done; [ $STARLING_RANK = 0 ] && exit 7;"
                + (ends ? " sleep 0.1; echo the reason; exit 8" : " trap '' TERM; while :; do sleep 1; done"))
                .processes(2).grace(Duration.ofMillis(ends ? 5000 : 200)).coordinator((secret, directory, world) -> {
                    CoordinatorThread thread = CoordinatorThread.start(Coordinator.open(transport, 2,
                            Coordinator.OnLoss.END, 2, Duration.ofSeconds(60)));
                    address.complete(thread.address());
                    return thread;
                });
        try (Launch launch = launcher.start()) {
            GroupConfig config = GroupConfig.of(transport, address.get(10, TimeUnit.SECONDS));
            CompletableFuture<Void> left = CompletableFuture.runAsync(
                    () -> Group.join(config.preferredRank(1)).close());
            try (Group group = Group.join(config.preferredRank(0))) {
                left.get(10, TimeUnit.SECONDS);
                assertThatThrownBy(() -> group.collectives().barrier().await(Duration.ofSeconds(10)))
                        .isInstanceOf(DistributedException.class).hasMessageContaining("rank 1");
            }
            Files.createFile(dir.resolve("go"));
            LaunchException e = catchThrowableOfType(LaunchException.class, () -> launch.await(Duration.ofSeconds(20)));
            assertThat(e.rank()).isEqualTo(ends ? 1 : 0);
            assertThat(e.status()).isEqualTo(ends ? 8 : 7);
            if (ends) {
                assertThat(e.lastLines()).containsExactly("the reason");
            }
        }
    }

    private static boolean isRefused(GroupConfig config) {
        try (Group _ = Group.join(config)) {
            return false;
        } catch (DistributedException e) {
            assertThat(e).hasMessageContaining("the group has ended");
            return true;
        }
    }

    @Test
    void restartsAWorkerWhileAnotherRuns() {
        Launcher launcher = group("if [ $STARLING_RANK = 1 ]; then [ $STARLING_RESTART = 1 ] || exit 4;"
                + " touch $STARLING_DIRECTORY/ready; exit 0; fi; " + AFTER_THE_OTHER + "exit 0");
        assertThat(launcher.backoff(Duration.ofMillis(50)).run()).isZero();
        assertThat(lines(out)).containsExactlyInAnyOrder("[0] start 0", "[1] start 0", "[1] start 1");
    }

    @Test
    void continuesWithoutToleratedFailures() {
        String script = "[ $STARLING_RANK = 0 ] || exit 6; sleep 0.5; echo done";
        assertThat(shell(script).processes(3).tolerate(2).run()).isZero();
        assertThat(lines(out)).containsExactly("[0] done");
        assertThat(failure(shell(script).processes(3).tolerate(1)).status()).isEqualTo(6);
        assertThat(failure(shell("exit 8").processes(2).tolerate(5)).status()).isEqualTo(8);
        assertThat(failure(shell("[ $STARLING_RANK = 1 ] && sleep 100; exit 8").processes(2).servers(1).tolerate(5))
                .status()).isEqualTo(8);
    }

    @Test
    void endsServersAfterTheWorkers() {
        String script = "if [ $STARLING_RANK -lt 2 ]; then sleep 0.2; exit 0; fi;"
                + " trap 'echo served; exit 0' TERM; while true; do sleep 0.1; done";
        assertThat(shell(script).processes(3).servers(1).grace(Duration.ofSeconds(2)).run()).isZero();
        assertThat(lines(out)).containsExactly("[2] served");
    }

    @Test
    void letsServersEndByThemselvesFirst() {
        String script = "if [ $STARLING_RANK = 0 ]; then exit 0; fi; sleep 1; echo served";
        assertThat(shell(script).processes(2).servers(1).run()).isZero();
        assertThat(lines(out)).containsExactly("[1] served");
    }

    @Test
    void reportsAServerThatFailsAfterTheWorkers() {
        String script = "if [ $STARLING_RANK = 0 ]; then exit 0; fi; sleep 1; exit 5";
        assertThat(failure(shell(script).processes(2).servers(1)).status()).isEqualTo(5);
    }

    /** A second process with one of these would fail at the port, or write the first one's file. */
    @ParameterizedTest
    @ValueSource(strings = {"-agentlib:jdwp=transport=dt_socket,address=9", "-Xrunjdwp:server=y",
        "-agentpath:/opt/libjdwp.so=server=y", "-Dcom.sun.management.jmxremote.port=9",
        "-Dcom.sun.management.jmxremote.rmi.port=9", "-XX:AOTCacheOutput=app.aot", "-XX:ArchiveClassesAtExit=app.jsa"})
    void passesNoFlagOfOneProcess(String flag) {
        assertThat(JavaCommand.isShared(flag)).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"-Xmx1g", "-XX:AOTCache=app.aot", "-Dcom.sun.management.jmxremote.ssl=false",
        "-agentpath:/opt/profiler.so=jdwp", "-XX:+UseSerialGC"})
    void passesOtherFlags(String flag) {
        assertThat(JavaCommand.isShared(flag)).isTrue();
    }

    @Test
    void startsTheSameProgramAgain() {
        String command = System.getProperty("sun.java.command");
        String path = System.getProperty("java.class.path");
        try {
            System.setProperty("java.class.path", "/opt/my app/app.jar");
            System.setProperty("sun.java.command", "/opt/my app/app.jar train it");
            assertThat(JavaCommand.ofThisProgram(List.of("again"))).endsWith("-jar", "/opt/my app/app.jar", "again");
            System.setProperty("sun.java.command", "org.example.Main train it");
            assertThat(JavaCommand.ofThisProgram(List.of("again"))).endsWith("org.example.Main", "again");
            System.setProperty("sun.java.command", "jdk.compiler/com.sun.tools.javac.launcher.SourceLauncher "
                    + "Train.java");
            assertThatThrownBy(() -> JavaCommand.ofThisProgram(List.of("again"))).isInstanceOf(TensorException.class)
                    .hasMessageContaining("source file").hasMessageContaining("Train.java");
        } finally {
            System.setProperty("sun.java.command", command);
            System.setProperty("java.class.path", path);
        }
    }

    @Test
    void endsWhenItsOutputIsClosed() {
        OutputStream full = new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                throw new IOException("closed");
            }
        };
        assertThat(shell("while echo hello; do sleep 0.1; done").output(full, err).run()).isEqualTo(128 + 13);
    }

    @Test
    void startsJavaWithTheFlagsOfThisJvm() {
        int status = Launcher.ofJava(EnvironmentProgram.class, "an argument").output(out, err).processes(2).run();
        assertThat(status).isZero();
        assertThat(lines(out)).contains("[1] 1 an argument " + System.getProperty("java.class.path").hashCode());
    }

    /** Prints its environment and arguments. */
    static final class EnvironmentProgram {
        private EnvironmentProgram() {
        }

        public static void main(String[] arguments) {
            System.out.println(LaunchedProcess.fromEnvironment().orElseThrow().rank() + " " + arguments[0] + " "
                    + System.getProperty("java.class.path").hashCode());
        }
    }

    @Test
    void forwardsSignals() throws Exception {
        for (int signal : new int[] {Signals.INT, Signals.TERM, Signals.HUP}) {
            if (isIgnored(signal)) {
                continue;
            }
            Process launcher = launcher(true, "trap 'echo got INT; exit 1' INT; trap 'echo got TERM; exit 1' TERM;"
                    + " trap 'echo got HUP; exit 1' HUP; echo ready; while true; do sleep 0.05; done");
            Path directory = ready(launcher);
            Signals.send(launcher.pid(), signal);
            String rest = rest(launcher);
            String name = signal == Signals.INT ? "INT" : signal == Signals.TERM ? "TERM" : "HUP";
            assertThat(rest.lines())
                    .containsExactly("[0] got " + name, "[1] got " + name, "[2] got " + name);
            assertThat(launcher.exitValue()).isEqualTo(128 + signal);
            assertThat(directory).doesNotExist();
        }
    }

    @Test
    void endsAllWhenTheJvmIsTerminated() throws Exception {
        Process launcher = launcher(false,
                "trap 'echo got; exit 1' TERM; echo ready; while true; do sleep 0.05; done");
        Path directory = ready(launcher);
        Signals.send(launcher.pid(), Signals.TERM);
        assertThat(rest(launcher).lines()).containsExactly("[0] got", "[1] got", "[2] got");
        assertThat(launcher.exitValue()).isEqualTo(143);
        assertThat(directory).doesNotExist();
    }

    @Test
    void leavesNothingWhenTheLauncherIsKilled() throws Exception {
        Process launcher = launcher(true, "trap '' TERM; sh -c 'trap \"\" TERM; while true; do sleep 0.1; done' " + mark
                + " & echo ready; while true; do sleep 0.1; done");
        Path directory = ready(launcher);
        // A shell may print that it is ready before its child exists.
        eventually(() -> marked().size() >= 7, () -> marked().toString());
        Signals.send(launcher.pid(), Signals.KILL);
        eventually(() -> !Files.exists(directory), () -> directory + " is still there");
    }

    @Test
    void closesOnce() throws Exception {
        Launch launch = shell("exec sleep 100").processes(2).start();
        launch.close();
        launch.close();
        assertThat(launch.await(Duration.ofSeconds(1))).isZero();
    }

    @Test
    void waitsForAnyTime() throws Exception {
        Duration forever = ChronoUnit.FOREVER.getDuration();
        try (Launch launch = shell("exit 0").start()) {
            assertThat(launch.await(forever)).isZero();
        }
        assertThatThrownBy(() -> shell("exit 0").grace(forever)).isInstanceOf(TensorException.class)
                .hasMessageContaining("at most 31536000 s");
    }

    /** A child inherits ignored signals, as after nohup, and then a shell cannot trap them. */
    private static boolean isIgnored(int signal) throws IOException {
        String mask = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(l -> l.startsWith("SigIgn:"))
                .map(l -> l.substring("SigIgn:".length()).strip()).findFirst().orElse("0");
        return (Long.parseUnsignedLong(mask, 16) >> signal - 1 & 1) != 0;
    }

    private Process launcher(boolean forward, String script) throws IOException {
        List<String> command = JavaCommand.of(LaunchingProgram.class, List.of("/bin/sh", "-c", script, mark));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
        if (forward) {
            builder.environment().put("FORWARD", "yes");
        }
        launchers.add(builder.start());
        return launchers.getLast();
    }

    /** Waits until all three processes run; returns the directory of their files. */
    private static Path ready(Process launcher) {
        Path directory = null;
        try {
            var reader = launcher.inputReader();
            int ready = 0;
            while (ready < 3 || directory == null) {
                String line = reader.readLine();
                assertThat(line).isNotNull();
                ready += line.endsWith("ready") ? 1 : 0;
                directory = line.startsWith("directory ") ? Path.of(line.substring(10)) : directory;
            }
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        assertThat(directory).exists();
        return directory;
    }

    private static String rest(Process launcher) throws Exception {
        assertThat(launcher.waitFor(20, TimeUnit.SECONDS)).isTrue();
        return String.join("\n", launcher.inputReader().lines().sorted().toList());
    }

    private LaunchException failure(Launcher launcher) {
        return catchThrowableOfType(LaunchException.class, launcher::run);
    }

    /** Returns the processes that this test's launches have started. */
    private List<String> marked() {
        try (Stream<Path> all = Files.list(Path.of("/proc"))) {
            return all.filter(p -> p.getFileName().toString().matches("\\d+")).map(LauncherTest::commandLine)
                    .filter(line -> line.contains(mark)).toList();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static String commandLine(Path process) {
        try {
            return Files.readString(process.resolve("cmdline"), StandardCharsets.ISO_8859_1).replace('\0', ' ');
        } catch (IOException gone) {
            return "";
        }
    }

    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
                .filter(name -> name.startsWith("starling-launch")).toList();
    }

    private static void eventually(BooleanSupplier holds, Supplier<String> otherwise) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!holds.getAsBoolean()) {
            assertThat(System.nanoTime()).as(otherwise).isLessThan(until);
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    private static String text(ByteArrayOutputStream stream) {
        return stream.toString(StandardCharsets.UTF_8);
    }

    private static List<String> lines(ByteArrayOutputStream stream) {
        return text(stream).lines().toList();
    }
}
