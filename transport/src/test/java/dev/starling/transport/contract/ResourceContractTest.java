package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.PutHandler;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.Transport;
import dev.starling.transport.contract.Cluster.Connection;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** Resources that every transport acquires and releases. */
@Timeout(120)
@ParameterizedClass
@MethodSource("dev.starling.transport.contract.Setting#all")
class ResourceContractTest {
    private static final int ROUNDS = 5_000;
    private static final long BYTES_PER_MS = 200;

    @Parameter
    private Setting setting;

    @BeforeEach
    void check() {
        Available.assume(setting);
    }

    @Test
    void leavesNoThreadNoFileAndNoMemory() throws IOException, InterruptedException {
        use();
        use();
        TreeMap<String, Long> before = held();
        for (int i = 0; i < 4; i++) {
            use();
        }
        TreeMap<String, Long> after = held();
        for (int i = 0; i < 50 && !fits(before, after); i++) {
            // Threads need a moment to end.
            TimeUnit.MILLISECONDS.sleep(100);
            after = held();
        }
        assertThat(fits(before, after)).as("before: %s%nafter: %s", before, after).isTrue();
    }

    private void use() {
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            MemoryRegion source = c.a().transport.register(1 << 20);
            MemoryRegion target = c.b().transport.register(1 << 20);
            RemoteRegion remote = c.open(target);
            boolean[] done = new boolean[1];
            assertThat(c.toB().put(source, 0, remote, 0, 1 << 20, ok -> done[0] = ok)).isEqualTo(Endpoint.OK);
            cluster.await(() -> done[0], "a put");
            remote.close();
        }
    }

    /** Counts resources of this process, by kind. */
    private static TreeMap<String, Long> held() throws IOException {
        TreeMap<String, Long> counts = new TreeMap<>();
        Thread.getAllStackTraces().keySet().forEach(t -> counts.merge("thread " + t.getName().replaceAll("\\d+", "N"),
                1L, Long::sum));
        try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
            counts.put("descriptors", descriptors.count());
        }
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            maps.filter(l -> l.contains("memfd:") || l.contains("starling") || l.contains("/dev/shm"))
                    .forEach(l -> counts.merge("mapping", 1L, Long::sum));
        }
        return counts;
    }

    private static boolean fits(TreeMap<String, Long> before, TreeMap<String, Long> after) {
        return after.entrySet().stream().filter(e -> e.getKey().startsWith("thread starling")
                || !e.getKey().startsWith("thread")).allMatch(e -> e.getValue() <= before.getOrDefault(e.getKey(), 0L));
    }

    @Test
    void allocatesNothingOnceItIsRunning() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (Cluster cluster = new Cluster(setting)) {
            Connection c = cluster.connect();
            Traffic traffic = new Traffic(c);
            // A message and its echo, a put and its completion in each round. UCX's Java binding creates an object of
            // 128 bytes for each send; Aeron's driver creates iterators until it is compiled, which may take minutes on
            // a busy machine; the other wires create nothing. For each protected frame, three in a round, the JDK
            // creates some 94 bytes to sign and verify it, or 1,900 to 2,100 to encrypt and decrypt it (key schedule,
            // GHASH's table, parameters), by what is compiled. Periodic work may allocate a little.
            long each = switch (setting.provider()) {
                case "ucx" -> 6 * 128;
                case "aeron" -> 200;
                default -> 1;
            } + 3 * switch (setting.protectionInUse()) {
                case PLAIN -> 0;
                case AUTHENTICATED -> 200;
                case ENCRYPTED -> 3000;
            };
            List<Long> tooMuch = new ArrayList<>();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            do {
                long begin = System.nanoTime();
                long before = threads.getThreadAllocatedBytes(Thread.currentThread().threadId());
                traffic.run(ROUNDS);
                long bytes = threads.getThreadAllocatedBytes(Thread.currentThread().threadId()) - before;
                long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
                tooMuch.add(bytes - ROUNDS * each - ms * BYTES_PER_MS);
            } while (tooMuch.getLast() > 0 && System.nanoTime() < end);
            assertThat(tooMuch.getLast()).as("bytes too many: %s", tooMuch).isNotPositive();
        }
    }

    /** Messages and puts in both directions. */
    private static final class Traffic {
        private final Transport a;
        private final Transport b;
        private final Endpoint toB;
        private final MemoryRegion source;
        private final RemoteRegion small;
        private final UnsafeBuffer message = new UnsafeBuffer(new byte[64]);
        private Endpoint toA;
        private int owed;
        private int received;
        private int notified;

        Traffic(Connection c) {
            a = c.a().transport;
            b = c.b().transport;
            toB = c.toB();
            source = a.register(256);
            small = c.open(b.register(256));
            a.onMessage((from, buffer, offset, length) -> received++);
            b.onMessage((from, buffer, offset, length) -> {
                toA = from;
                owed++;
            });
            PutHandler count = (from, immediate) -> notified++;
            b.onPut(count);
        }

        void run(int rounds) {
            for (int i = 0; i < rounds; i++) {
                int receivedTarget = received + 1;
                int notifiedTarget = notified + 1;
                while (toB.send(message, 0, 64) != Endpoint.OK) {
                    turn();
                }
                while (toB.putAndNotify(source, 0, small, 0, 256, i, null) != Endpoint.OK) {
                    turn();
                }
                long begin = System.nanoTime();
                while (received < receivedTarget || notified < notifiedTarget) {
                    if (turn() == 0) {
                        a.idle(0);
                        assertThatInTime(begin);
                    }
                }
            }
        }

        private int turn() {
            if (owed > 0 && toA.send(message, 0, 64) == Endpoint.OK) {
                owed--;
            }
            return a.doWork() + b.doWork();
        }

        private static void assertThatInTime(long begin) {
            if (System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(20)) {
                throw new AssertionError("no answer");
            }
        }
    }
}
