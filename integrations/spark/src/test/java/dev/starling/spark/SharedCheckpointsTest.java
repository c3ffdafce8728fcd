package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class SharedCheckpointsTest {
    @Test
    void copiesCheckpointsAndLeavesOtherFiles(@TempDir Path shared, @TempDir Path local, @TempDir Path other)
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
