package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.samples.Finding.Verdict;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ExaminationTest {
    private static final Duration LONG = Duration.ofSeconds(50);

    private final Examination examination = new Examination();

    @Test
    void notesWhatHangsAndFindsTheRest() {
        CountDownLatch never = new CountDownLatch(1);
        Finding found = new Finding("B", Verdict.OK, "well", "");
        examination.begin("A", Duration.ofMillis(100), "wait no longer", () -> {
            never.await();
            return List.of();
        });
        examination.begin("B", LONG, "", () -> List.of(found));
        assertThat(examination.findings()).containsExactly(
                new Finding("A", Verdict.NOTE, "not known: no answer within 100 ms", "wait no longer"), found);
        never.countDown();
    }

    @Test
    void tellsWhatCannotBeLookedAt() {
        examination.begin("A", LONG, "", () -> {
            throw new IllegalArgumentException("no idea");
        });
        assertThatThrownBy(examination::findings).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("A cannot be looked at").hasMessageContaining("no idea");
    }
}
