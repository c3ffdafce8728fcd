package dev.starling.transport.spi;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.IdleStrategy;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BackoffTest {
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

    @Test
    void spinsOnlyWhileThereIsAProcessorForEachBusyThread() {
        // A thread that may spin sleeps later, and needs to be woken later.
        for (int busy : new int[] {1, PROCESSORS}) {
            assertThat(Backoff.forThreads(busy).shouldSleep(99_999)).isFalse();
            assertThat(Backoff.forThreads(busy).shouldSleep(100_000)).isTrue();
        }
        for (int busy : new int[] {PROCESSORS + 1, 1000}) {
            assertThat(Backoff.forThreads(busy).shouldSleep(19_999)).isFalse();
            assertThat(Backoff.forThreads(busy).shouldSleep(20_000)).isTrue();
        }
    }

    @EnabledOnOs(OS.LINUX)
    @ParameterizedTest
    @ValueSource(ints = {1, 1000})
    void sleepsFromATenthOfAMillisecondOn(int busyThreads) throws IOException {
        Backoff backoff = Backoff.forThreads(busyThreads);
        int calls = 200;
        for (long idleNs : new long[] {0, 19_999, 20_000, 99_999}) {
            assertThat(sleeps(backoff, idleNs, calls)).as("%d ns", idleNs).isLessThan(calls / 4);
        }
        for (long idleNs : new long[] {100_000, 1_000_000, Long.MAX_VALUE}) {
            long begin = System.nanoTime();
            assertThat(sleeps(backoff, idleNs, calls)).as("%d ns", idleNs).isGreaterThan(calls * 3 / 4);
            // At most half a millisecond each, plus the overhead of the system.
            assertThat(System.nanoTime() - begin).isBetween(calls * 15_000L, calls * 50_000_000L);
        }
    }

    @Test
    void strategyMeasuresFromTheLastWork() {
        long yieldNs = 20_000_000;
        long sleepNs = 100_000_000;
        IdleStrategy strategy = new Backoff(0, yieldNs, sleepNs, sleepNs).strategy();
        for (int i = 0; i < 3; i++) {
            long begin = System.nanoTime();
            long last = begin;
            long call;
            do {
                strategy.idle(0);
                long now = System.nanoTime();
                call = now - last;
                last = now;
            } while (call < sleepNs && last - begin < 10_000_000_000L);
            assertThat(call).as("the first sleep").isGreaterThanOrEqualTo(sleepNs);
            // Not the time up to that call: the thread may have waited for a processor between both.
            assertThat(last - begin).as("yielding, then sleeping").isBetween(yieldNs + sleepNs, 5_000_000_000L);
            strategy.idle(1);
        }
        LockSupport.unpark(Thread.currentThread());
        Backoff sleeping = new Backoff(0, 0, 60_000_000_000L, 60_000_000_000L);
        long begin = System.nanoTime();
        sleeping.strategy().idle();
        assertThat(System.nanoTime() - begin).as("a sleep that was ended").isLessThan(30_000_000_000L);
    }

    @Test
    void parksAlsoWhileTheThreadIsInterrupted() {
        Thread.currentThread().interrupt();
        try {
            long begin = System.nanoTime();
            for (int i = 0; i < 20; i++) {
                Backoff.park(5_000_000);
            }
            assertThat(System.nanoTime() - begin).isGreaterThan(50_000_000);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    /** Returns how often this thread blocks; yielding does not count. */
    private static long sleeps(Backoff backoff, long idleNs, int calls) throws IOException {
        long before = switches();
        for (int i = 0; i < calls; i++) {
            backoff.pause(idleNs);
        }
        return switches() - before;
    }

    private static long switches() throws IOException {
        return Files.readAllLines(Path.of("/proc/thread-self/status")).stream()
                .filter(line -> line.startsWith("voluntary_ctxt_switches:"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1).strip())).findFirst()
                .orElseThrow();
    }
}
