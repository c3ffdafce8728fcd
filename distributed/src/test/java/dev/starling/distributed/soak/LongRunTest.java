package dev.starling.distributed.soak;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The resources of a run do not grow with its length, and all are released at its end. Ranks are threads here. */
@Timeout(300)
class LongRunTest {
    private static final int WARM_STEPS = 1_000;
    private static final int SETTLING_STEPS = 50;
    private static final int QUIET_STEPS = 200;

    private Set<String> before;

    @BeforeEach
    void listBefore() throws IOException {
        Cluster.awaitEarlier();
        before = left();
    }

    @AfterEach
    void assertNothingLeft() throws Exception {
        Set<String> after = left();
        // A thread ends a moment after it has delivered its result.
        for (long end = System.nanoTime() + 5_000_000_000L; !before.containsAll(after) && System.nanoTime() < end;) {
            Thread.sleep(10);
            after = left();
        }
        after.removeAll(before);
        assertThat(after).isEmpty();
    }

    /** Returns the names of all threads and files of groups and transports, without the process's kernel threads. */
    private static Set<String> left() throws IOException {
        Set<String> names = Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
                .filter(name -> name.matches("(starling(?!-cpu)|aeron|rank).*"))
                .collect(Collectors.toCollection(TreeSet::new));
        for (String directory : List.of("/dev/shm", System.getProperty("java.io.tmpdir"))) {
            try (Stream<Path> files = Files.list(Path.of(directory))) {
                files.map(file -> file.getFileName().toString()).filter(name -> name.startsWith("starling-aeron-"
                        + ProcessHandle.current().pid() + "-")).forEach(names::add);
            }
        }
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            for (Path file : open.toList()) {
                if (Files.isSymbolicLink(file)) {
                    String target = Files.readSymbolicLink(file).toString();
                    if (target.startsWith("/memfd:")) {
                        names.add(target);
                    }
                }
            }
        }
        return names;
    }

    @ParameterizedTest
    @ValueSource(strings = {"ring", "elastic", "gossip"})
    void isFlat(String strategy) {
        assertFlat("local", strategy, 1_000, null);
    }

    @ParameterizedTest
    @Tag("stress")
    @ValueSource(strings = {"ring", "elastic", "gossip"})
    void isFlatForLong(String strategy) {
        assertFlat("local", strategy, 10_000, null);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ps async", "ps stale", "ps sync"})
    void isFlatWithAServer(String strategy) {
        assertFlat("local", strategy, 1_000, ServerConfig.inMemory());
    }

    @ParameterizedTest
    @Tag("stress")
    @ValueSource(strings = {"ps async", "ps stale", "ps sync"})
    void isFlatWithAServerForLong(String strategy, @TempDir Path directory) {
        assertFlat("local", strategy, 10_000, ServerConfig.in(directory).journalBytes(1 << 20));
    }

    /** With a server configuration, the last member is a server. */
    private static void assertFlat(String wire, String strategy, long steps, ServerConfig server) {
        TransportConfig transport = TransportConfig.of(wire, Secret.random()).livenessTimeout(Duration.ofSeconds(20));
        OnLoss onLoss = strategy.equals("ring") ? OnLoss.END : OnLoss.REFORM;
        AtomicBoolean done = new AtomicBoolean();
        List<ResourceUsage> usage = new Cluster(transport, 3, onLoss).servers(server == null ? 0 : 1).run(group -> {
            if (group.rank() == 0) {
                return LongRun.measure(group, strategy, steps, () -> done.set(true), () -> true);
            }
            if (server != null && group.rank() == group.world() - 1) {
                ParameterServer.serve(group, server);
            } else {
                LongRun.train(group, strategy, step -> { }, done::get);
            }
            return null;
        }).getFirst();
        ResourceUsage.assertFlat(usage.get(0), usage.get(1), usage.get(2));
    }

    @ParameterizedTest
    @ValueSource(strings = {"elastic", "gossip"})
    void isFlatWhenMembersJoinAndLeave(String strategy) throws Exception {
        assertFlatWithGuests(strategy, 10);
    }

    @ParameterizedTest
    @Tag("stress")
    @ValueSource(strings = {"elastic", "gossip"})
    void isFlatWhenManyMembersJoinAndLeave(String strategy) throws Exception {
        assertFlatWithGuests(strategy, 100);
    }

    /**
     * Two members train, and are measured when a tenth, half and all of the guests have joined, trained a while and
     * left; no guest joins during a measurement. Code that is not compiled yet allocates ten times as many objects, so
     * guests join only after a warm-up, and the measurement waits until deoptimised code is compiled again.
     */
    private static void assertFlatWithGuests(String strategy, int guests) {
        TransportConfig transport = TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(20));
        List<ResourceUsage.QuietInterval> usage = new CopyOnWriteArrayList<>();
        CountDownLatch warm = new CountDownLatch(WARM_STEPS);
        AtomicInteger departed = new AtomicInteger();
        new Cluster(transport, 2, OnLoss.REFORM).run(group -> {
            boolean measures = group.rank() == 0;
            Thread host = measures ? Thread.ofPlatform().daemon().name("rank-guests").start(() -> {
                while (warm.getCount() > 0) {
                    LockSupport.parkNanos(1_000_000);
                }
                for (int guest = 1; guest <= guests; guest++) {
                    visit(group.config(), strategy);
                    departed.set(guest);
                    while (usage.size() < due(guest, guests)) {
                        LockSupport.parkNanos(1_000_000);
                    }
                }
            }) : null;
            QuietIntervals quiet = new QuietIntervals();
            LongRun.train(group, strategy, step -> {
                LockSupport.parkNanos(100_000);
                if (measures) {
                    warm.countDown();
                    int now = departed.get();
                    ResourceUsage.QuietInterval interval = quiet.step(step, now);
                    if (interval != null && usage.size() < due(now, guests)
                            && (usage.size() < 2 || interval.isFlatSince(usage.get(1)) || quiet.isLate())) {
                        usage.add(interval);
                    }
                }
            }, () -> usage.size() == 3);
            return host;
        });
        ResourceUsage.QuietInterval.assertFlat(usage);
    }

    /** Finds intervals of steps during which no guest has left. */
    private static final class QuietIntervals {
        private int departed;
        private int steps;
        private ResourceUsage begin;
        private long before;
        private long minStepBytes;
        private long sinceNs;

        /** Returns whether no guest has left for long enough that compilation has finished. */
        boolean isLate() {
            return System.nanoTime() - sinceNs > TimeUnit.SECONDS.toNanos(20);
        }

        /** Counts a step; returns a measurement at the end of an interval, else {@code null}. */
        ResourceUsage.QuietInterval step(long step, int nowDeparted) {
            long allocated = ResourceUsage.allocatedBytes() - before;
            if (nowDeparted != departed) {
                departed = nowDeparted;
                steps = 0;
                sinceNs = System.nanoTime();
            }
            ResourceUsage.QuietInterval interval = null;
            if (++steps > SETTLING_STEPS) {
                minStepBytes = Math.min(minStepBytes, allocated);
                if (steps == SETTLING_STEPS + QUIET_STEPS) {
                    interval = new ResourceUsage.QuietInterval(begin, ResourceUsage.of(step, minStepBytes));
                    steps = SETTLING_STEPS;
                }
            }
            if (steps == SETTLING_STEPS) {
                begin = ResourceUsage.of(step, 0);
                minStepBytes = Long.MAX_VALUE;
            }
            before = ResourceUsage.allocatedBytes();
            return interval;
        }
    }

    private static int due(int departed, int guests) {
        return departed == guests ? 3 : departed >= guests / 2 ? 2 : departed >= guests / 10 ? 1 : 0;
    }

    /** Joins, takes some steps with the others, and leaves while they continue. */
    private static void visit(GroupConfig config, String strategy) {
        try (Group group = Group.join(config.preferredRank(-1))) {
            int[] steps = new int[1];
            LongRun.train(group, strategy, step -> {
                if (++steps[0] == 20) {
                    throw new CancellationException("the guest leaves");
                }
            }, () -> false);
        } catch (CancellationException left) {
            return;
        }
    }
}
