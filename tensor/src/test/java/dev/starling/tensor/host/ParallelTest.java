package dev.starling.tensor.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.starling.tensor.TensorException;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ParallelTest {
    @AfterEach
    void stopHelpers() {
        Parallel.shutdown();
    }

    @Test
    void runsEachIndexOnceAndCutsAtMultiplesOfTheGrain() {
        for (int n : new int[] {0, 1, 9, 10, 11, 99, 1_000, 10_007}) {
            for (int threads : new int[] {1, 2, 3, 8}) {
                AtomicIntegerArray seen = new AtomicIntegerArray(n);
                Parallel.withThreads(threads, () -> {
                    Parallel.forRange(n, 10, (from, to) -> {
                        assertThat(from % 10).isZero();
                        assertThat(Parallel.workerIndex()).isBetween(0, threads - 1);
                        for (long i = from; i < to; i++) {
                            seen.incrementAndGet((int) i);
                        }
                    });
                    return null;
                });
                for (int i = 0; i < n; i++) {
                    assertThat(seen.get(i)).isEqualTo(1);
                }
            }
        }
    }

    @Test
    void cutsEvenTheLongestRangesIntoPartsThatAnIntCounts() {
        long n = 3L << 30;
        for (int threads : new int[] {1, 2}) {
            AtomicLong sum = new AtomicLong();
            Parallel.withThreads(threads, () -> {
                Parallel.forRange(n * 8, 3, (from, to) -> {
                    assertThat(from % 3).isZero();
                    sum.addAndGet(Math.toIntExact(to - from));
                });
                return null;
            });
            assertThat(sum.get()).isEqualTo(n * 8);
        }
    }

    @Test
    void usesSeveralThreadsWithDistinctIndices() {
        List<Integer> indices = new ArrayList<>();
        CountDownLatch together = new CountDownLatch(3);
        Parallel.withThreads(3, () -> {
            Parallel.forRange(3, 1, (from, to) -> {
                together.countDown();
                await(together);
                synchronized (indices) {
                    indices.add(Parallel.workerIndex());
                }
            });
            return null;
        });
        assertThat(indices).containsExactlyInAnyOrder(0, 1, 2);
        assertThat(Parallel.workerIndex()).isZero();
    }

    @Test
    void runsInlineWithinATask() {
        AtomicInteger calls = new AtomicInteger();
        Parallel.withThreads(2, () -> {
            Parallel.forRange(2, 1, (from, to) -> {
                Thread outer = Thread.currentThread();
                Parallel.forRange(100, 1, (a, b) -> {
                    assertThat(Thread.currentThread()).isSameAs(outer);
                    assertThat(b - a).isEqualTo(100);
                    calls.incrementAndGet();
                });
            });
            return null;
        });
        assertThat(calls).hasValue(2);
    }

    @Test
    void throwsWhatATaskThrowsAndWorksAfterwards() {
        for (int round = 0; round < 100; round++) {
            long bad = round;
            assertThatThrownBy(() -> Parallel.withThreads(2, () -> {
                Parallel.forRange(100, 1, (from, to) -> {
                    if (from <= bad && bad < to) {
                        throw new IllegalStateException("index " + bad);
                    }
                });
                return null;
            })).isInstanceOf(IllegalStateException.class).hasMessage("index " + bad);
        }
        assertThat(sum(2, 1_000)).isEqualTo(499_500);
    }

    @Test
    void scopesAndRestoresTheNumberOfThreads() {
        int outside = Parallel.threads();
        assertThat(Parallel.<Integer>withThreads(7, Parallel::threads)).isEqualTo(7);
        assertThat(Parallel.threads()).isEqualTo(outside);
        assertThatThrownBy(() -> Parallel.setThreads(0)).isInstanceOf(TensorException.class)
                .hasMessageContaining("got 0");
        Parallel.setThreads(3);
        try {
            assertThat(Parallel.threads()).isEqualTo(3);
            assertThat(Parallel.<Integer>withThreads(2, Parallel::threads)).isEqualTo(2);
        } finally {
            Parallel.setThreads(outside);
        }
    }

    @Test
    void servesConcurrentCallers() throws InterruptedException {
        AtomicInteger right = new AtomicInteger();
        List<Thread> callers = new ArrayList<>();
        for (int c = 0; c < 6; c++) {
            callers.add(Thread.ofPlatform().start(() -> {
                for (int i = 0; i < 3_000; i++) {
                    if (sum(3, 500 + i) == (500L + i) * (499 + i) / 2) {
                        right.incrementAndGet();
                    }
                }
            }));
        }
        for (Thread caller : callers) {
            caller.join();
        }
        assertThat(right).hasValue(18_000);
    }

    @Test
    void leavesNoThreadRunningWhenIdle() throws InterruptedException {
        sum(3, 1_000);
        List<Thread> helpers = helpers();
        assertThat(helpers).hasSize(2).allMatch(Thread::isDaemon);
        for (long end = System.nanoTime() + 20_000_000_000L; System.nanoTime() < end
                && !helpers.stream().allMatch(t -> t.getState() == Thread.State.WAITING);) {
            Thread.sleep(10);
        }
        assertThat(helpers).allMatch(t -> t.getState() == Thread.State.WAITING);
        Parallel.shutdown();
        assertThat(helpers).noneMatch(Thread::isAlive);
        assertThat(sum(3, 1_000)).isEqualTo(499_500);
    }

    @Test
    void keepsTheCallersInterrupt() {
        Thread.currentThread().interrupt();
        assertThat(sum(2, 100_000)).isEqualTo(100_000L * 99_999 / 2);
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void allocatesNothing() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        AtomicLong total = new AtomicLong();
        RangeTask task = (from, to) -> total.addAndGet(to - from);
        Parallel.withThreads(2, () -> {
            for (int i = 0; i < 20_000; i++) {
                Parallel.forRange(1_000, 10, task);
            }
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 10_000; i++) {
                Parallel.forRange(1_000, 10, task);
            }
            assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(10_000);
            return null;
        });
        assertThat(total).hasValue(30_000_000);
    }

    private static long sum(int threads, long n) {
        AtomicLong total = new AtomicLong();
        Parallel.withThreads(threads, () -> {
            Parallel.forRange(n, 7, (from, to) -> {
                long part = 0;
                for (long i = from; i < to; i++) {
                    part += i;
                }
                total.addAndGet(part);
            });
            return null;
        });
        return total.get();
    }

    private static List<Thread> helpers() {
        return Thread.getAllStackTraces().keySet().stream().filter(t -> t.getName().startsWith("starling-cpu"))
                .toList();
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
