package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class ProgressTest {
    private static final Duration LONG = Duration.ofSeconds(10);

    private final Transport transport = Transport.open(TransportConfig.of("local", Secret.random()));
    private final AtomicLong works = new AtomicLong();

    @AfterEach
    void closeTransport() {
        transport.close();
    }

    private int work() {
        works.incrementAndGet();
        return 0;
    }

    @Test
    void resumesInTheBackgroundSoonAfterALongWait() {
        // The thread doubles its sleep each time: one sleep lasts from 2.046 s of this wait to 4.094 s or later.
        long waitNs = TimeUnit.MILLISECONDS.toNanos(2_150);
        long sleepEndsNs = TimeUnit.MILLISECONDS.toNanos(4_050);
        try (Progress progress = new Progress(transport, this::work, () -> false, true, "test", Long.MAX_VALUE / 4)) {
            long begin = System.nanoTime();
            progress.await(() -> System.nanoTime() - begin > waitNs, LONG);
            long before = works.get();
            while (works.get() == before) {
                Thread.onSpinWait();
            }
            assertThat(System.nanoTime() - begin).isLessThan(sleepEndsNs);
        }
    }

    @Test
    void reportsAFailureOfTheBackgroundThreadToCallers() {
        try (Progress progress = new Progress(transport, () -> {
            if (Thread.currentThread().getName().equals("background")) {
                throw new StackOverflowError("of the test");
            }
            return work();
        }, () -> false, true, "background", Progress.MAX_RELIEF_NS)) {
            assertThatThrownBy(() -> {
                while (true) {
                    progress.doWork();
                    Thread.sleep(1);
                }
            }).isInstanceOf(DistributedException.class)
                    .hasMessageContaining("the background thread failed: of the test");
        }
    }

    @Test
    void waitsForMoreNanosecondsThanALongHolds() {
        try (Progress progress = new Progress(transport, this::work, () -> false, false, "test",
                Progress.MAX_RELIEF_NS)) {
            assertThat(progress.await(() -> works.get() > 3, ChronoUnit.FOREVER.getDuration())).isTrue();
        }
    }

    @Test
    void doesNoWorkOnceClosed() {
        Progress progress = new Progress(transport, this::work, () -> false, true, "test", Progress.MAX_RELIEF_NS);
        assertThat(progress.await(() -> works.get() > 0, LONG)).isTrue();
        progress.close();
        long before = works.get();
        assertThat(progress.await(() -> false, Duration.ofMillis(20))).isFalse();
        assertThat(works.get()).isEqualTo(before);
    }
}
