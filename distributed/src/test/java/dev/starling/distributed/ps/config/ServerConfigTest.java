package dev.starling.distributed.ps.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;

class ServerConfigTest {
    /** Nanoseconds of an endless one do not fit a long: the server would stop at its first snapshot. */
    @Test
    void refusesAnEndlessDeadline() {
        ServerConfig config = ServerConfig.inMemory();
        assertThat(config.deadline(Duration.ofDays(365)).deadline()).hasDays(365);
        assertThatThrownBy(() -> config.deadline(ChronoUnit.FOREVER.getDuration())).isInstanceOf(TensorException.class)
                .hasMessageContaining("deadline at most 365 days");
    }
}
