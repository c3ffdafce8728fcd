package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
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

    /** A directory in which rank 0 deletes the first checkpoint and replaces the second when they have been listed. */
    public static final class Changing extends LocalFileSystem {
        @Override
        public FileStatus[] listStatus(org.apache.hadoop.fs.Path directory) throws IOException {
            FileStatus[] listed = super.listStatus(directory);
            Path shared = Path.of(directory.toUri());
            if (!Files.deleteIfExists(shared.resolve("step-1.json"))) {
                Files.deleteIfExists(shared.resolve("step-1-aa.safetensors"));
                Files.writeString(shared.resolve("step-2.json"), "names step-2-cc.safetensors");
            }
            return listed;
        }
    }

    @Test
    void leavesOutCheckpointsThatChangeWhileTheyAreCopied(@TempDir Path shared, @TempDir Path local) throws Exception {
        for (String name : List.of("step-1-aa", "step-2-bb", "step-3-dd")) {
            Files.writeString(shared.resolve(name + ".safetensors"), "weights");
            Files.writeString(shared.resolve(name.substring(0, 6) + ".json"), "names " + name + ".safetensors");
        }
        Configuration hadoop = new Configuration();
        hadoop.setClass("fs.file.impl", Changing.class, FileSystem.class);
        hadoop.setBoolean("fs.file.impl.disable.cache", true);
        new SharedCheckpoints(shared.toUri().toString(), hadoop, local).fetch();
        assertThat(shared.resolve("step-1-aa.safetensors")).doesNotExist();
        try (Stream<Path> files = Files.list(local)) {
            assertThat(files.map(p -> p.getFileName().toString()).filter(n -> n.endsWith(".json")))
                    .containsExactly("step-3.json");
        }
        assertThat(local.resolve("step-3-dd.safetensors")).hasContent("weights");
    }

    /** A directory from which the first manifest must not be deleted. */
    public static final class Keeping extends LocalFileSystem {
        @Override
        public boolean delete(org.apache.hadoop.fs.Path file, boolean recursive) throws IOException {
            if (file.getName().equals("step-1.json")) {
                throw new IOException("no checkpoint would be left after a crash at this moment");
            }
            return super.delete(file, recursive);
        }
    }

    @Test
    void replacesAManifestWithoutDeletingIt(@TempDir Path shared, @TempDir Path local) throws Exception {
        Configuration hadoop = new Configuration();
        hadoop.setClass("fs.file.impl", Keeping.class, FileSystem.class);
        hadoop.setBoolean("fs.file.impl.disable.cache", true);
        SharedCheckpoints checkpoints = new SharedCheckpoints(shared.toUri().toString(), hadoop, local);
        Files.writeString(local.resolve("step-1.json"), "first");
        checkpoints.publish();
        Files.writeString(local.resolve("step-1.json"), "changed");
        checkpoints.publish();
        assertThat(shared.resolve("step-1.json")).hasContent("changed");
        assertThat(shared.resolve("step-1.json.copying")).doesNotExist();
        // Reads the shared manifest, with its checksum, to compare it.
        checkpoints.publish();
    }

    @Test
    void aManifestIsReadableBeforeItsChecksumIsRenamed(@TempDir Path shared, @TempDir Path local, @TempDir Path other)
            throws Exception {
        Configuration hadoop = new Configuration();
        hadoop.setBoolean("fs.file.impl.disable.cache", true);
        // Renames the manifest only, as if the process ended after that.
        hadoop.set("fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs");
        SharedCheckpoints checkpoints = new SharedCheckpoints(shared.toUri().toString(), hadoop, local);
        Files.writeString(local.resolve("step-1.json"), "first");
        checkpoints.publish();
        Files.writeString(local.resolve("step-1.json"), "changed");
        checkpoints.publish();
        new SharedCheckpoints(shared.toUri().toString(), hadoop, other).fetch();
        assertThat(other.resolve("step-1.json")).hasContent("changed");
    }
}
