package dev.starling.distributed.soak;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.ServerConfig;
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

/** A run takes no more the longer it lasts, and leaves nothing behind; ranks are threads of this process. */
@Timeout(300)
class LongRunTest {
    private static final int WARM_STEPS = 1_000;
    private static final int SETTLING_STEPS = 50;
    private static final int CALM_STEPS = 200;

    private Set<String> before;

    @BeforeEach
    void lookAround() throws IOException {
        Cluster.awaitEarlier();
        before = left();
    }

    @AfterEach
    void leavesNothingBehind() throws Exception {
        Set<String> after = left();
        // A thread that has told its result is gone a moment later.
        for (long end = System.nanoTime() + 5_000_000_000L; !before.containsAll(after) && System.nanoTime() < end;) {
            Thread.sleep(10);
            after = left();
        }
        after.removeAll(before);
        assertThat(after).isEmpty();
    }

    /** Names all threads and files of groups and transports; threads of kernels serve the whole process. */
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

    /** The last member is a server, if there is to be one. */
    private static void assertFlat(String wire, String strategy, long steps, ServerConfig server) {
        TransportConfig transport = TransportConfig.of(wire, Secret.random()).livenessTimeout(Duration.ofSeconds(20));
        OnLoss onLoss = strategy.equals("ring") ? OnLoss.END : OnLoss.REFORM;
        AtomicBoolean done = new AtomicBoolean();
        List<Holdings> held = new Cluster(transport, 3, onLoss).run(group -> {
            if (group.rank() == 0) {
                return LongRun.measure(group, strategy, steps, () -> done.set(true), () -> true);
            }
            if (server != null && group.rank() == group.world() - 1) {
                ParameterServer.serve(group, 0, server);
            } else {
                LongRun.train(group, strategy, step -> { }, done::get);
            }
            return null;
        }).getFirst();
        Holdings.assertFlat(held.get(0), held.get(1), held.get(2));
    }

    @ParameterizedTest
    @ValueSource(strings = {"elastic", "gossip"})
    void isFlatWhenSomebodyComesAndGoes(String strategy) throws Exception {
        assertFlatWithGuests(strategy, 10);
    }

    @ParameterizedTest
    @Tag("stress")
    @ValueSource(strings = {"elastic", "gossip"})
    void isFlatWhenManyComeAndGo(String strategy) throws Exception {
        assertFlatWithGuests(strategy, 100);
    }

    /**
     * Two train, and are measured whenever a tenth, half or all of the guests have come, trained a while and gone; then
     * nobody comes for a while. Code that is not compiled yet makes ten times as many objects, so nobody comes early,
     * and what the last of them undid in compiled code is given time to be compiled again.
     */
    private static void assertFlatWithGuests(String strategy, int guests) {
        TransportConfig transport = TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(20));
        List<Holdings.Calm> held = new CopyOnWriteArrayList<>();
        CountDownLatch warm = new CountDownLatch(WARM_STEPS);
        AtomicInteger gone = new AtomicInteger();
        new Cluster(transport, 2, OnLoss.REFORM).run(group -> {
            boolean measures = group.rank() == 0;
            Thread host = measures ? Thread.ofPlatform().daemon().name("rank-guests").start(() -> {
                while (warm.getCount() > 0) {
                    LockSupport.parkNanos(1_000_000);
                }
                for (int guest = 1; guest <= guests; guest++) {
                    visit(group.config(), strategy);
                    gone.set(guest);
                    while (held.size() < due(guest, guests)) {
                        LockSupport.parkNanos(1_000_000);
                    }
                }
            }) : null;
            Quiet quiet = new Quiet();
            LongRun.train(group, strategy, step -> {
                LockSupport.parkNanos(100_000);
                if (measures) {
                    warm.countDown();
                    int now = gone.get();
                    Holdings.Calm calm = quiet.step(step, now);
                    if (calm != null && held.size() < due(now, guests)
                            && (held.size() < 2 || calm.takesNoMoreThan(held.get(1)) || quiet.isLate())) {
                        held.add(calm);
                    }
                }
            }, () -> held.size() == 3);
            return host;
        });
        Holdings.Calm.assertFlat(held);
    }

    /** Looks for steps in a row between which no guest has gone. */
    private static final class Quiet {
        private int gone;
        private int steps;
        private Holdings begin;
        private long before;
        private long least;
        private long sinceNs;

        /** Whether nobody has come or gone for so long that compilers have had their time. */
        boolean isLate() {
            return System.nanoTime() - sinceNs > TimeUnit.SECONDS.toNanos(20);
        }

        /** Takes note of a step and of how many guests have gone; returns what was measured at the end of a row. */
        Holdings.Calm step(long step, int nowGone) {
            long made = Holdings.made() - before;
            if (nowGone != gone) {
                gone = nowGone;
                steps = 0;
                sinceNs = System.nanoTime();
            }
            Holdings.Calm calm = null;
            if (++steps > SETTLING_STEPS) {
                least = Math.min(least, made);
                if (steps == SETTLING_STEPS + CALM_STEPS) {
                    calm = new Holdings.Calm(begin, Holdings.of(step, least));
                    steps = SETTLING_STEPS;
                }
            }
            if (steps == SETTLING_STEPS) {
                begin = Holdings.of(step, 0);
                least = Long.MAX_VALUE;
            }
            before = Holdings.made();
            return calm;
        }
    }

    private static int due(int gone, int guests) {
        return gone == guests ? 3 : gone >= guests / 2 ? 2 : gone >= guests / 10 ? 1 : 0;
    }

    /** Comes, takes some steps with the others, and goes without asking whether they are done. */
    private static void visit(GroupConfig config, String strategy) {
        try (Group group = Group.join(config.wish(-1))) {
            int[] steps = new int[1];
            LongRun.train(group, strategy, step -> {
                if (++steps[0] == 20) {
                    throw new CancellationException("a guest has seen enough");
                }
            }, () -> false);
        } catch (CancellationException seenEnough) {
            return;
        }
    }
}
