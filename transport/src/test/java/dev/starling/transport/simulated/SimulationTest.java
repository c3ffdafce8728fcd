package dev.starling.transport.simulated;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.Secret;
import dev.starling.transport.simulated.FaultPlan.Kind;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SimulationTest {
    private static final List<String> NAMES = List.of("a", "b", "c");
    private static final Duration HORIZON = Duration.ofSeconds(3);
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private static LockstepExchange exchange(FaultPlan plan, int rounds) {
        return LockstepExchange.run(Simulation.of(plan), NAMES, rounds, DEADLINE);
    }

    @Test
    void repeatsARunWithTheSameSeed() {
        for (long seed = 0; seed < 50; seed++) {
            FaultPlan plan = FaultPlan.random(seed, NAMES, HORIZON);
            FaultPlan same = FaultPlan.random(seed, NAMES, HORIZON);
            assertThat(same).isEqualTo(plan).hasToString(plan.toString());
            LockstepExchange first = exchange(plan, 100);
            LockstepExchange second = exchange(same, 100);
            assertThat(second.simulation.fingerprint()).isEqualTo(first.simulation.fingerprint());
            assertThat(second.simulation.now()).isEqualTo(first.simulation.now());
            assertThat(exchange(FaultPlan.random(seed + 1000, NAMES, HORIZON), 100).simulation.fingerprint())
                    .isNotEqualTo(first.simulation.fingerprint());
        }
    }

    @Test
    void repeatsARunWhereTheJvmSchedulesTheProcesses() throws InterruptedException {
        FaultPlan plan = FaultPlan.random(7, NAMES, HORIZON);
        long expected = exchange(plan, 100).simulation.fingerprint();
        long[] got = new long[1];
        // A virtual thread cannot be the scheduler of other virtual threads.
        Thread.ofVirtual().start(() -> got[0] = exchange(plan, 100).simulation.fingerprint()).join();
        assertThat(got[0]).isEqualTo(expected);
    }

    /** The process waits outside of the simulation, and the thread that runs the simulation waits with it. */
    @ParameterizedTest
    @ValueSource(longs = {0, 50})
    void sleepsWhileAnInterruptedThreadWaitsForAProcess(long interruptMs) {
        Thread resuming = Thread.currentThread();
        Thread interrupting = Thread.ofPlatform().unstarted(() -> {
            pause(interruptMs);
            resuming.interrupt();
        });
        Coroutine process = new Coroutine("a", () -> {
            if (interruptMs > 0) {
                interrupting.start();
                join(interrupting);
            }
            pause(300);
        });
        try {
            if (interruptMs == 0) {
                resuming.interrupt();
            }
            long begin = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            assertThat(process.resume()).as("continues").isFalse();
            assertThat(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - begin).isLessThan(100_000_000);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Where the JVM schedules it, it has a thread that waits. */
    @Test
    void keepsTheInterruptOfAProcessThatYields() throws InterruptedException {
        boolean[] kept = new boolean[1];
        Thread.ofVirtual().start(() -> {
            Coroutine[] process = new Coroutine[1];
            process[0] = new Coroutine("a", () -> {
                Thread.currentThread().interrupt();
                process[0].yield();
                kept[0] = Thread.interrupted();
            });
            assertThat(process[0].resume()).isTrue();
            process[0].resume();
        }).join();
        assertThat(kept[0]).isTrue();
    }

    @Test
    void plansNoFaultBetweenProcessesForASingleOne() {
        for (long seed = 0; seed < 20; seed++) {
            assertThat(FaultPlan.random(seed, List.of("a"), HORIZON).faults()).allMatch(Fault.Pause.class::isInstance);
        }
    }

    @Test
    void losesNothingOnABadNetwork() {
        Set<Kind> harmless = EnumSet.of(Kind.WEATHER, Kind.DISTURBANCE);
        for (long seed = 0; seed < 200; seed++) {
            LockstepExchange exchange = exchange(FaultPlan.random(seed, NAMES, HORIZON, harmless), 100);
            assertThat(exchange.members).as("%s", exchange.simulation).allMatch(m -> m.rounds == 100);
        }
    }

    @Test
    void endsForAllWhateverHappens() {
        int complete = 0;
        for (long seed = 0; seed < 300; seed++) {
            // An exchange throws if numbers arrive out of order, and the simulation if a process hangs.
            LockstepExchange exchange = exchange(FaultPlan.random(seed, NAMES, HORIZON), 100);
            complete += exchange.members.stream().allMatch(m -> m.rounds == 100) ? 1 : 0;
        }
        assertThat(complete).isBetween(15, 285);
    }

    @Test
    void delaysMessagesAcrossACutAndDeliversThemInOrderAfterwards() {
        try (Simulation simulation = Simulation.of(3)) {
            List<Integer> received = new ArrayList<>();
            List<Duration> times = new ArrayList<>();
            simulation.start("a", () -> {
                Wire wire = simulation.wire("a");
                Link link = wire.open("b");
                for (int i = 0; i < 10; i++) {
                    while (link.offer(number(i), 0, 4, null, 0, 0) != Wire.SENT) {
                        wire.idle(0);
                    }
                    simulation.sleep(Duration.ofMillis(100));
                }
            });
            simulation.start("b", () -> {
                Wire wire = simulation.wire("b");
                while (received.size() < 10) {
                    wire.poll((buffer, offset, length) -> {
                        received.add(buffer.getInt(offset));
                        times.add(simulation.now());
                    }, 1);
                    wire.idle(0);
                }
            });
            simulation.plan(new Fault.Cut(Duration.ofMillis(350), Duration.ofMillis(300), Set.of("a"), Set.of("b"),
                    false));
            simulation.run(DEADLINE);
            assertThat(received).containsExactly(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
            assertThat(times.get(3)).isLessThan(Duration.ofMillis(350));
            assertThat(times.get(4)).isBetween(Duration.ofMillis(650), Duration.ofMillis(670));
            assertThat(times.get(6)).isBetween(Duration.ofMillis(650), Duration.ofMillis(670));
            assertThat(times.get(7)).isGreaterThan(Duration.ofMillis(690));
        }
    }

    @Test
    void reportsTheStacksOfHangingProcesses() {
        try (Simulation simulation = Simulation.of(5)) {
            simulation.start("good", () -> { });
            simulation.start("hanging", () -> waitForever(simulation.wire("hanging")));
            assertThatThrownBy(() -> simulation.run(Duration.ofSeconds(2))).isInstanceOf(SimulationException.class)
                    .hasMessageContaining("1 of 2").hasMessageContaining("seed 5").hasMessageContaining("hanging")
                    .hasMessageContaining("waitForever");
        }
    }

    private static void waitForever(Wire wire) {
        while (true) {
            wire.idle(0);
        }
    }

    @Test
    void reportsSeedAndCauseOfAFailure() {
        IllegalStateException cause = new IllegalStateException("broken");
        Simulation simulation = Simulation.of(42);
        boolean[] unwound = new boolean[1];
        simulation.start("waits", () -> {
            try {
                waitForever(simulation.wire("waits"));
            } finally {
                unwound[0] = true;
            }
        });
        simulation.start("fails", () -> {
            simulation.wire("fails").idle(0);
            throw cause;
        });
        assertThatThrownBy(() -> simulation.run(DEADLINE)).isInstanceOf(SimulationException.class).hasCause(cause)
                .hasMessageContaining("seed 42").hasMessageContaining("fails failed").hasMessageContaining("broken");
        assertThat(unwound[0]).isTrue();
    }

    @Test
    void stopsAProcessForAsLongAsItIsPaused() {
        try (Simulation simulation = Simulation.of(11)) {
            List<Duration> turns = new ArrayList<>();
            simulation.start("a", () -> {
                Wire wire = simulation.wire("a");
                while (simulation.now().compareTo(Duration.ofSeconds(1)) < 0) {
                    wire.idle(0);
                    turns.add(simulation.now());
                }
            });
            simulation.plan(new Fault.Pause(Duration.ofMillis(200), Duration.ofMillis(500), "a"));
            simulation.run(DEADLINE);
            assertThat(turns).noneMatch(t -> t.compareTo(Duration.ofMillis(215)) > 0
                    && t.compareTo(Duration.ofMillis(700)) < 0);
            assertThat(turns.size()).isGreaterThan(40);
        }
    }

    @Test
    void restartsACrashedProcess() {
        for (long seed = 0; seed < 20; seed++) {
            try (Simulation simulation = Simulation.of(seed)) {
                List<String> log = new ArrayList<>();
                simulation.start("a", () -> {
                    Wire wire = simulation.wire("a");
                    try {
                        waitForever(wire);
                    } finally {
                        log.add("crash of " + wire.address());
                        wire.close();
                    }
                });
                simulation.plan(new Fault.Crash(Duration.ofMillis(10), 3, "a"));
                simulation.at(Duration.ofMillis(500), () -> simulation.start("a",
                        () -> log.add("start of " + simulation.wire("a").address())));
                simulation.start("b", () -> simulation.sleep(Duration.ofSeconds(1)));
                simulation.run(DEADLINE);
                assertThat(log).containsExactly("crash of a", "start of a");
            }
        }
    }

    @Test
    void waitsForWorkersThatAreNotSimulated() {
        try (Simulation simulation = Simulation.of(1)) {
            List<String> order = new ArrayList<>();
            for (String name : NAMES) {
                simulation.start(name, () -> {
                    order.add(name);
                    CompletableFuture.runAsync(() -> { }, CompletableFuture.delayedExecutor(20, TimeUnit.MILLISECONDS))
                            .join();
                    order.add(name);
                });
            }
            simulation.run(DEADLINE);
            assertThat(order).hasSize(6);
            for (int i = 0; i < 6; i += 2) {
                assertThat(order.get(i)).isEqualTo(order.get(i + 1));
            }
        }
    }

    @Test
    void letsOthersRunWhileOneBusyWaits() {
        try (Simulation simulation = Simulation.of(1)) {
            boolean[] done = new boolean[1];
            simulation.start("busy", () -> {
                Wire wire = simulation.wire("busy");
                while (!done[0]) {
                    wire.poll((buffer, offset, length) -> { }, 1);
                }
            });
            simulation.start("other", () -> {
                simulation.sleep(Duration.ofMillis(1));
                done[0] = true;
            });
            simulation.run(DEADLINE);
        }
    }

    @Test
    void leavesNoThreadAndNoMemory() throws InterruptedException {
        int threads = Thread.getAllStackTraces().size();
        exchange(FaultPlan.random(1, NAMES, HORIZON), 10);
        long before = used();
        for (long seed = 0; seed < 500; seed++) {
            exchange(FaultPlan.random(seed, NAMES, HORIZON), 10);
        }
        assertThat(used() - before).isLessThan(4 << 20);
        assertThat(Thread.getAllStackTraces().size()).isLessThanOrEqualTo(threads + 2);
    }

    /** Returns the memory that is in use after garbage collections; new objects would be counted in whole regions. */
    private static long used() throws InterruptedException {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < 5; i++) {
            System.gc();
            TimeUnit.MILLISECONDS.sleep(20);
            least = Math.min(least, ManagementFactory.getMemoryPoolMXBeans().stream()
                    .filter(pool -> pool.getType() == MemoryType.HEAP).map(MemoryPoolMXBean::getCollectionUsage)
                    .filter(Objects::nonNull).mapToLong(MemoryUsage::getUsed).sum());
        }
        return least;
    }

    @Test
    void explainsHowToOpenIt() {
        assertThatThrownBy(() -> Transport.open(TransportConfig.of("simulated", Secret.random())))
                .isInstanceOf(TransportException.class).hasMessageContaining("simulation.wire");
    }

    private static UnsafeBuffer number(int value) {
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[4]);
        buffer.putInt(0, value);
        return buffer;
    }
}
