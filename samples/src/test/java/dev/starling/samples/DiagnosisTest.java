package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.samples.Finding.Verdict;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class DiagnosisTest {
    private static final Duration LONG = Duration.ofSeconds(50);

    private final Diagnosis diagnosis = new Diagnosis();

    @Test
    void reportsACheckThatHangsAndTheResultsOfOthers() {
        CountDownLatch never = new CountDownLatch(1);
        Finding found = new Finding("B", Verdict.OK, "well", "");
        diagnosis.start("A", Duration.ofMillis(100), "do not wait", () -> {
            never.await();
            return List.of();
        });
        diagnosis.start("B", LONG, "", () -> List.of(found));
        assertThat(diagnosis.findings()).containsExactly(
                new Finding("A", Verdict.NOTE, "unknown: the check did not finish within 100 ms", "do not wait"),
                found);
        never.countDown();
    }

    /** It may have to delete files that the end of the process would leave behind. */
    @Test
    void waitsForTheCleanUpOfACheckThatIsLate() throws InterruptedException {
        AtomicBoolean clean = new AtomicBoolean();
        diagnosis.start("A", Duration.ofMillis(1), "", () -> {
            Thread.sleep(200);
            clean.set(true);
            return List.of();
        });
        assertThat(diagnosis.findings()).hasSize(1);
        assertThat(clean).isFalse();
        diagnosis.finish();
        assertThat(clean).isTrue();
    }

    @Test
    void reportsACheckThatFails() {
        diagnosis.start("A", LONG, "", () -> {
            throw new IllegalArgumentException("no idea");
        });
        assertThatThrownBy(diagnosis::findings).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("the check of A failed").hasMessageContaining("no idea");
    }
}
