package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.Field;
import dev.starling.tensor.DType;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Where a task keeps rows and a run its checkpoints. */
@Timeout(60)
class RowCacheTest {
    private static final int MEBI = 1 << 20;

    /** Fills a cache; returns how many bytes lie in its file. */
    private static long spilled(int mebibytes, long memoryBytes, Path directory) {
        try (RowCache cache = new RowCache(List.of(Field.of(DType.F32, MEBI / 4)), memoryBytes, directory)) {
            for (int i = 0; i < mebibytes; i++) {
                cache.chunk().set(ValueLayout.JAVA_INT, cache.offset(), i);
                cache.added();
            }
            return cache.spilledBytes();
        }
    }

    @Test
    void usesAFileBeyondItsLimit(@TempDir Path directory) {
        assertThat(spilled(20, 32L * MEBI, directory)).isZero();
        assertThat(spilled(20, 16L * MEBI, directory)).isEqualTo(16L * MEBI);
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    void copiesCheckpointsAndleavesOtherFiles(@TempDir Path shared, @TempDir Path local, @TempDir Path other)
            throws Exception {
        Files.writeString(shared.resolve("part-0.parquet"), "rows");
        Files.writeString(local.resolve("step-1.json"), "first");
        Files.writeString(local.resolve("step-1-aa.safetensors"), "weights");
        SharedCheckpoints checkpoints = new SharedCheckpoints(shared.toUri().toString(), new Configuration(), local);
        checkpoints.publish();
        FileTime written = FileTime.fromMillis(1_000_000);
        Files.setLastModifiedTime(shared.resolve("step-1.json"), written);
        Files.writeString(local.resolve("step-2.json"), "second");
        checkpoints.publish();
        assertThat(Files.getLastModifiedTime(shared.resolve("step-1.json"))).as("is not written again")
                .isEqualTo(written);
        Files.writeString(local.resolve("step-1.json"), "changed");
        Files.delete(local.resolve("step-1-aa.safetensors"));
        checkpoints.publish();
        assertThat(shared.resolve("step-1.json")).hasContent("changed");
        assertThat(shared.resolve("step-1-aa.safetensors")).doesNotExist();
        assertThat(shared.resolve("part-0.parquet")).hasContent("rows");
        new SharedCheckpoints(shared.toUri().toString(), new Configuration(), other).fetch();
        try (Stream<Path> files = Files.list(other)) {
            assertThat(files.map(p -> p.getFileName().toString()).filter(n -> !n.startsWith(".")))
                    .containsExactlyInAnyOrder("step-1.json", "step-2.json");
        }
    }
}
