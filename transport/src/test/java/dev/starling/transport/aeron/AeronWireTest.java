package dev.starling.transport.aeron;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.contract.FreePort;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.Wires;
import io.aeron.exceptions.AeronException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class AeronWireTest {
    @TempDir
    private Path directory;

    private TransportConfig config() {
        return TransportConfig.of("aeron", Secret.ofText("sixteen bytes or more")).directory(directory);
    }

    private TransportConfig config(boolean ipc) {
        return config().option("ipc", Boolean.toString(ipc));
    }

    private static Wire open(TransportConfig config) {
        return new AeronWireProvider().open(config.wire());
    }

    @Test
    void switchesToSharedMemoryForAPeerThatStartsLater() throws IOException {
        int port = FreePort.find();
        try (Wire from = open(config())) {
            Link link = from.open("127.0.0.1:" + port);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(100);
            await(() -> System.nanoTime() > until, from);
            Set<Path> before = children(directory);
            try (Wire to = open(config().at("127.0.0.1", port))) {
                await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
                Set<Path> of = children(directory);
                of.removeAll(before);
                assertThat(logs("publications")).as("the link uses memory of the peer's driver").anyMatch(
                        log -> log.startsWith(of.iterator().next().toString()));
            }
        }
    }

    @Test
    void opensWhileTheCallerIsInterruptedAgainAndAgain() {
        Thread caller = Thread.currentThread();
        Thread other = Thread.ofPlatform().start(() -> {
            for (int i = 0; i < 300; i++) {
                LockSupport.parkNanos(1_000_000);
                caller.interrupt();
            }
        });
        try {
            while (other.isAlive()) {
                open(config()).close();
            }
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            while (other.isAlive()) {
                Thread.onSpinWait();
            }
            Thread.interrupted();
        }
        assertThat(directory).isEmptyDirectory();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void worksForAnInterruptedCaller(boolean ipc) {
        try (Wire from = open(config(ipc)); Wire to = open(config(ipc))) {
            Link link = from.open(to.address());
            Thread.currentThread().interrupt();
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(50);
            await(() -> System.nanoTime() > until, from, to);
            AtomicInteger received = new AtomicInteger();
            await(() -> offer(link, new byte[4]) == Wire.SENT, from);
            await(() -> {
                to.poll((buffer, offset, length) -> received.incrementAndGet(), 16);
                return received.get() > 0;
            }, from);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void worksWithADriverInAnotherProcess() throws IOException {
        try (AeronDriver driver = AeronDriver.start(directory.resolve("driver"))) {
            TransportConfig config = config().option("driver", driver.directory().toString());
            try (Wire from = open(config); Wire to = open(config)) {
                Link link = from.open(to.address());
                await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
                assertThat(directory.resolve("driver/images")).as("nothing used the network")
                        .isEmptyDirectory();
            }
            assertThatThrownBy(() -> AeronDriver.start(driver.directory())).isInstanceOf(TransportException.class)
                    .hasMessageContaining("a media driver already runs in");
        }
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    void doesNotWaitForADriverThatHasLeft() {
        try (AeronWire wire = (AeronWire) open(config())) {
            assertThatThrownBy(() -> wire.connect(directory.resolve("left"), null, System::nanoTime))
                    .isInstanceOf(AeronException.class).hasMessageContaining("no media driver runs in");
        }
    }

    @Test
    void opensForAnInterruptedCaller() {
        Thread.currentThread().interrupt();
        try (Wire wire = open(config())) {
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
            assertThat(wire.address()).startsWith("127.0.0.1:");
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void reportsThatNoDriverRuns() {
        TransportException e = failure(config().option("driver", directory.resolve("none").toString()));
        assertThat(e.problem()).isEqualTo(Problem.UNAVAILABLE);
        assertThat(e).hasMessageContaining("no media driver runs in " + directory.resolve("none"));
        assertThat(directory).isEmptyDirectory();
    }

    /** Both find the port free; then only one can bind it. */
    @RepeatedTest(3)
    void reportsThatThePortIsInUseToTheLoserOfARace() throws Exception {
        int port = FreePort.find();
        CyclicBarrier start = new CyclicBarrier(2);
        List<Wire> winners = new CopyOnWriteArrayList<>();
        List<TransportException> losers = new CopyOnWriteArrayList<>();
        List<Thread> racers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            racers.add(Thread.ofPlatform().start(() -> {
                try {
                    start.await();
                    winners.add(open(config().at("127.0.0.1", port)));
                } catch (TransportException e) {
                    losers.add(e);
                } catch (InterruptedException | BrokenBarrierException e) {
                    throw new IllegalStateException(e);
                }
            }));
        }
        for (Thread racer : racers) {
            racer.join();
        }
        winners.forEach(Wire::close);
        assertThat(winners).hasSize(1);
        assertThat(losers).singleElement().satisfies(e -> assertThat(e.problem()).isEqualTo(Problem.IN_USE));
        assertThat(losers.getFirst()).hasMessageContaining("port " + port).hasMessageContaining("0 for any");
        assertThat(directory).isEmptyDirectory();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "mtu | 1000 | mtu must be a multiple of 32, got mtu=1000",
        "mtu | 65536 | mtu <= 65504 must hold, got mtu=65536",
        "mtu | big | mtu must be a number",
        "term | 3m | term must be a power of two",
        "ipcTerm | 64k | ipcTerm must be a power of two from 262144",
        "window | 4m | window <= term/2 must hold, got mtu=65504, window=4194304, term=2097152",
        "socketBuffer | 1g | must hold here, got socketBuffer=1073741824; raise the limit with: sysctl -w",
        "threads | 4 | 0 <= threads <= 3",
        "ipc | yes | ipc must be true or false, got yes",
        "mut | 1408 | the aeron transport has no option 'mut'; its options are driver, ipc, ipcTerm"})
    void namesABrokenRelation(String option, String value, String relation) {
        TransportException e = failure(config().option(option, value));
        assertThat(e.problem()).isEqualTo(Problem.ARGUMENT);
        assertThat(e).hasMessageContaining(relation);
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    void sizesBulkMessagesByDatagrams() {
        try (Wire loopback = open(config()); Wire ethernet = open(config().option("mtu", "1408"))) {
            assertThat(loopback.bulkMessageLength()).isEqualTo(65_472);
            assertThat(loopback.maxMessageLength()).isGreaterThanOrEqualTo(loopback.bulkMessageLength());
            assertThat(ethernet.bulkMessageLength() % 1376).as("whole datagrams").isZero();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3})
    void leavesNoThreadAndNoFile(int threads) {
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        TransportConfig config = config().option("threads", Integer.toString(threads));
        try (Wire from = open(config); Wire to = open(config)) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> begun(before).count() == 2 * threads, from, to);
            assertThat(begun(before).map(Thread::getName)).allMatch(name -> name.startsWith("starling-aeron-"));
        }
        assertThat(begun(before)).isEmpty();
        assertThat(directory).isEmptyDirectory();
    }

    private static Stream<Thread> begun(Set<Thread> before) {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> !before.contains(thread))
                .filter(thread -> thread.getName().contains("aeron"));
    }

    @Test
    void setsNoSystemPropertyButTheProcessKey() {
        // The class sets the key when it is loaded.
        WireDirectory.sweep(directory);
        Map<Object, Object> before = Map.copyOf(System.getProperties());
        try (Wire wire = open(config())) {
            Wires.drive(wire);
            assertThat(Map.copyOf(System.getProperties())).isEqualTo(before);
        }
    }

    @Test
    void doesNotFindWiresOfAnotherDirectory() throws IOException {
        TransportConfig other = config().directory(Files.createDirectory(directory.resolve("other")));
        try (Wire from = open(config()); Wire to = open(other)) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            assertThat(logs("images")).as("received over the network").singleElement().asString().contains("/other/");
        }
    }

    private List<String> logs(String kind) {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.map(Path::toString).filter(name -> name.contains('/' + kind + '/')
                    && name.endsWith("logbuffer")).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void propagatesAnExceptionOfTheInbox() {
        try (Wire wire = open(config())) {
            Link link = wire.open(wire.address());
            for (int i = 0; i < 2; i++) {
                await(() -> offer(link, new byte[4]) == Wire.SENT, wire);
            }
            Inbox failing = (buffer, offset, length) -> {
                throw new IllegalStateException("thrown by the inbox");
            };
            assertThatThrownBy(() -> {
                while (true) {
                    wire.poll(failing, 1);
                }
            }).isInstanceOf(IllegalStateException.class).hasMessage("thrown by the inbox");
        }
    }

    @Test
    void reportsAFullDirectory() throws Exception {
        try (SmallDisk disk = SmallDisk.mount(directory, "16m")) {
            TransportException e = failure(config());
            assertThat(e.problem()).isEqualTo(Problem.NO_ROOM);
            assertThat(e).hasMessageContaining(directory + " is full").hasMessageContaining("--shm-size")
                    .hasMessageContaining("KiB are free");
        }
    }

    @Test
    void reportsThatALinkHasNoRoom(@TempDir Path roomy) throws Exception {
        try (SmallDisk disk = SmallDisk.mount(directory, "30m");
                Wire to = open(config(false).directory(roomy));
                Wire from = open(config(false))) {
            List<Link> links = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                links.add(from.open(to.address()));
            }
            TransportException e = catchThrowableOfType(TransportException.class,
                    () -> await(() -> links.stream().allMatch(each -> offer(each, new byte[4]) == Wire.SENT), from,
                            to));
            assertThat(e.problem()).isEqualTo(Problem.NO_ROOM);
            assertThat(e).hasMessageContaining("the link to " + to.address() + " has no room");
            await(() -> offer(links.getFirst(), new byte[4]) == Wire.SENT, from, to);
        }
    }

    @Test
    void deletesFilesThatAKilledProcessLeft() throws Exception {
        Process process = child(directory);
        String address = process.inputReader().readLine();
        assertThat(address).startsWith("127.0.0.1:");
        try (Wire from = open(config())) {
            Link link = from.open(address);
            await(() -> offer(link, new byte[4]) == Wire.SENT, from);
            long begin = System.nanoTime();
            process.destroyForcibly().waitFor();
            await(() -> offer(link, new byte[4]) == Wire.CLOSED, from);
            assertThat(System.nanoTime() - begin).isLessThan(TimeUnit.SECONDS.toNanos(5));
            assertThat(children(directory)).as("its files remain").hasSize(2);
            assertThat(AeronDriver.sweep(directory)).isEqualTo(1);
            assertThat(children(directory)).as("files of running wires remain").hasSize(1);
            assertThat(logs("publications")).as("links over the network to the process that has ended").isEmpty();
        }
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    void survivesBeingStopped() throws Exception {
        Process process = child(directory);
        try (Wire from = open(config())) {
            Link link = from.open(process.inputReader().readLine());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from);
            signal(process, "STOP");
            Thread.sleep(1500);
            int[] sent = {0};
            while (offer(link, new byte[10_000]) == Wire.SENT) {
                sent[0]++;
                Wires.drive(from);
            }
            assertThat(sent[0]).isPositive();
            signal(process, "CONT");
            await(() -> offer(link, new byte[10_000]) == Wire.SENT, from);
        } finally {
            process.destroyForcibly().waitFor();
        }
        AeronDriver.sweep(directory);
    }

    /** Aeron keeps the memory of a link for a while after its peer has left, and a wire has memory for few links. */
    @Test
    void acceptsAPeerAgainAfterItHasReconnectedTooOften() {
        TransportConfig brief = config(false).livenessTimeout(Duration.ofMillis(100));
        try (Wire to = open(brief); Wire from = open(brief)) {
            int accepted = 0;
            while (accepted < 100 && connects(from, to)) {
                accepted++;
            }
            assertThat(accepted).as("links before there was no room").isBetween(8, 99);
            long begin = System.nanoTime();
            await(() -> connects(from, to), from, to);
            assertThat(System.nanoTime() - begin).isLessThan(TimeUnit.SECONDS.toNanos(10));
        }
    }

    /** Opens a link, sends a message if the peer accepts it, and closes the link. */
    private static boolean connects(Wire from, Wire to) {
        Link link = from.open(to.address());
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(300);
        boolean sent = false;
        while (!sent && System.nanoTime() < end) {
            Wires.drive(from);
            Wires.drive(to);
            sent = offer(link, new byte[4]) == Wire.SENT;
        }
        link.close();
        return sent;
    }

    private static void signal(Process process, String signal) throws IOException, InterruptedException {
        assertThat(new ProcessBuilder("kill", "-" + signal, Long.toString(process.pid())).start().waitFor()).isZero();
    }

    private static Set<Path> children(Path directory) throws IOException {
        try (Stream<Path> all = Files.list(directory)) {
            return all.collect(Collectors.toSet());
        }
    }

    private TransportException failure(TransportConfig config) {
        return catchThrowableOfType(TransportException.class, () -> open(config).close());
    }

    /** Starts a process with a wire that accepts any message, and prints its address. */
    private static Process child(Path directory) throws IOException {
        return new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(),
                "--add-exports", "java.base/jdk.internal.misc=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
                "-Xmx64m", "-cp", System.getProperty("java.class.path"), Listener.class.getName(),
                directory.toString()).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** The other process. */
    static final class Listener {
        private Listener() {
        }

        public static void main(String[] args) throws InterruptedException {
            TransportConfig config = TransportConfig.of("aeron", Secret.random()).directory(Path.of(args[0]));
            try (Wire wire = open(config)) {
                System.out.println(wire.address());
                long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(50);
                while (System.nanoTime() < end) {
                    if (Wires.drive(wire) == 0) {
                        Thread.sleep(0, 100_000);
                    }
                }
            }
        }
    }
}
