package dev.starling.jmh.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ProcessGroupTest {
    @TempDir
    private Path directory;

    /** Identifies children by their command: the class path may exceed the length of the reported command line. */
    private static List<ProcessHandle> children() {
        return ProcessHandle.current().descendants()
            .filter(p -> p.info().command().orElse("").endsWith("java")).toList();
    }

    private ProcessGroup group(Implementation implementation, String variant, int world) {
        return new ProcessGroup(implementation, Variant.of(variant), world, directory.resolve("group"), directory,
            Hosts.loopback());
    }

    @Test
    void measuresProcessesAndLeavesNoneBehind() {
        try (ProcessGroup group = group(Implementation.STARLING, "", 2)) {
            assertThat(group.time(Measure.ALL_REDUCE, 4096, 10)).isPositive();
            assertThat(group.time(Measure.ALL_REDUCE, 1 << 20, 10)).isPositive();
            assertThat(children()).hasSize(2);
        }
        assertThat(children()).isEmpty();
    }

    @Test
    void measuresMessagesAndPuts() {
        try (ProcessGroup group = group(Implementation.STARLING_MESSAGES, "", 2)) {
            assertThat(group.time(Measure.ROUND_TRIP, 32, 100)).isPositive();
            assertThat(group.time(Measure.PUT, 8, 100)).isPositive();
        }
    }

    @Test
    void reportsWhyAMemberFailed() {
        try (ProcessGroup group = group(Implementation.STARLING_TRAINING, "unknown", 1)) {
            assertThatThrownBy(() -> group.time(Measure.TRAIN, 8, 1)).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("unknown strategy: unknown");
        }
    }

    @Test
    void namesSizesExactly() {
        assertThat(ClusterBench.size(8)).isEqualTo("8 B");
        assertThat(ClusterBench.size(1500)).isEqualTo("1500 B");
        assertThat(ClusterBench.size(1 << 16)).isEqualTo("64 KiB");
        assertThat(ClusterBench.size((1 << 20) + 1024)).isEqualTo("1025 KiB");
        assertThat(ClusterBench.size(1 << 24)).isEqualTo("16 MiB");
    }

    @Test
    void countsBusBandwidthAsNcclTestsDo() {
        assertThat(Measure.ALL_REDUCE.value(2, 1000, 100)).isEqualTo(10);
        assertThat(Measure.ALL_REDUCE.value(4, 1000, 100)).isEqualTo(15);
    }
}
