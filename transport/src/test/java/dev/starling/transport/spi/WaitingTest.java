package dev.starling.transport.spi;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WaitingTest {
    private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

    @Test
    void spinsOnlyWhileThereIsAProcessorForEachBusyThread() {
        // A thread that may spin sleeps later, and needs to be woken later.
        for (int busy : new int[] {1, PROCESSORS}) {
            assertThat(Waiting.forThreads(busy).shouldSleep(99_999)).isFalse();
            assertThat(Waiting.forThreads(busy).shouldSleep(100_000)).isTrue();
        }
        for (int busy : new int[] {PROCESSORS + 1, 1000}) {
            assertThat(Waiting.forThreads(busy).shouldSleep(19_999)).isFalse();
            assertThat(Waiting.forThreads(busy).shouldSleep(20_000)).isTrue();
        }
    }

    @EnabledOnOs(OS.LINUX)
    @ParameterizedTest
    @ValueSource(ints = {1, 1000})
    void sleepsFromATenthOfAMillisecondOn(int busyThreads) throws IOException {
        Waiting waiting = Waiting.forThreads(busyThreads);
        int calls = 200;
        for (long idleNs : new long[] {0, 19_999, 20_000, 99_999}) {
            assertThat(sleeps(waiting, idleNs, calls)).as("%d ns", idleNs).isLessThan(calls / 4);
        }
        for (long idleNs : new long[] {100_000, 1_000_000, Long.MAX_VALUE}) {
            long begin = System.nanoTime();
            assertThat(sleeps(waiting, idleNs, calls)).as("%d ns", idleNs).isGreaterThan(calls * 3 / 4);
            // At most half a millisecond each, plus the overhead of the system.
            assertThat(System.nanoTime() - begin).isBetween(calls * 15_000L, calls * 50_000_000L);
        }
    }

    /** Returns how often this thread blocks; yielding does not count. */
    private static long sleeps(Waiting waiting, long idleNs, int calls) throws IOException {
        long before = switches();
        for (int i = 0; i < calls; i++) {
            waiting.idle(idleNs);
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
