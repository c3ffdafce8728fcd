package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.errors.Durations;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Durations in messages. */
class DurationsTest {
    @Test
    void areInSecondsOrMilliseconds() {
        assertThat(Durations.text(Duration.ofSeconds(8))).isEqualTo("8 s");
        assertThat(Durations.text(Duration.ofMinutes(2))).isEqualTo("120 s");
        assertThat(Durations.text(Duration.ofMillis(1500))).isEqualTo("1.5 s");
        assertThat(Durations.text(Duration.ofMillis(200))).isEqualTo("200 ms");
        assertThat(Durations.text(Duration.ofNanos(1500))).isEqualTo("0.002 ms");
        assertThat(Durations.text(Duration.ZERO)).isEqualTo("0 s");
        assertThat(Durations.text(Duration.ofMillis(-200))).isEqualTo("-200 ms");
        assertThat(Durations.text(Duration.ofSeconds(Long.MAX_VALUE))).isEqualTo(Long.MAX_VALUE + " s");
    }
}
