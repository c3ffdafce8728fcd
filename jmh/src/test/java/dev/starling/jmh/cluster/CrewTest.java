package dev.starling.jmh.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class CrewTest {
    @TempDir
    private Path directory;

    /** The class path may be longer than what the system tells of a command line, so the command itself must do. */
    private static List<ProcessHandle> children() {
        return ProcessHandle.current().descendants()
            .filter(p -> p.info().command().orElse("").endsWith("java")).toList();
    }

    @Test
    void measuresProcessesAndLeavesNoneBehind() {
        try (Crew crew = new Crew(Party.STARLING, Way.of(""), 2, directory.resolve("a"), directory)) {
            assertThat(crew.time(Measure.ALL_REDUCE, 4096, 10)).isPositive();
            assertThat(crew.time(Measure.ALL_REDUCE, 1 << 20, 10)).isPositive();
            assertThat(children()).hasSize(2);
        }
        assertThat(children()).isEmpty();
    }

    @Test
    void measuresMessagesAndPuts() {
        try (Crew crew = new Crew(Party.STARLING_MESSAGES, Way.of(""), 2, directory.resolve("b"), directory)) {
            assertThat(crew.time(Measure.ROUND_TRIP, 32, 100)).isPositive();
            assertThat(crew.time(Measure.PUT, 8, 100)).isPositive();
        }
    }

    @Test
    void tellsWhyAMemberEnded() {
        try (Crew crew = new Crew(Party.STARLING_TRAINING, Way.of("hearsay"), 1, directory.resolve("c"), directory)) {
            assertThatThrownBy(() -> crew.time(Measure.TRAIN, 8, 1)).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("no such strategy: hearsay");
        }
    }

    @Test
    void countsBusBandwidthAsNcclTestsDo() {
        assertThat(Measure.ALL_REDUCE.value(2, 1000, 100)).isEqualTo(10);
        assertThat(Measure.ALL_REDUCE.value(4, 1000, 100)).isEqualTo(15);
    }
}
