package dev.starling.transport.aeron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Path;

/** A file system of a given size; tests that use it are skipped where this user may not mount one. */
record SmallDisk(Path path) implements AutoCloseable {
    static SmallDisk mount(Path path, String size) throws IOException, InterruptedException {
        assumeTrue("root".equals(System.getProperty("user.name")), "only root may mount a file system");
        int code = new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=" + size, "starling-test",
                path.toString()).start().waitFor();
        assumeTrue(code == 0, "this user may not mount a file system here");
        return new SmallDisk(path);
    }

    @Override
    public void close() throws IOException, InterruptedException {
        assertThat(new ProcessBuilder("umount", path.toString()).start().waitFor()).isZero();
    }
}
