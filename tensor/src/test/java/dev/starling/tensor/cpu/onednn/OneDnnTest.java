package dev.starling.tensor.cpu.onednn;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OneDnnTest {
    @Test
    void extractsTheLibraryInAnInterruptedThread(@TempDir Path directory) throws Exception {
        // JavaCPP's cache has a folder with the name of the jar.
        Path jar = directory.resolve("starling-test-" + UUID.randomUUID() + ".jar");
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
            out.putNextEntry(new ZipEntry("library"));
            out.write(1);
            out.closeEntry();
        }
        Thread.currentThread().interrupt();
        File file;
        boolean interrupted;
        try {
            file = OneDnn.extracted(URI.create("jar:" + jar.toUri() + "!/library").toURL());
        } finally {
            interrupted = Thread.interrupted();
        }
        try {
            assertThat(file).hasSize(1);
            assertThat(interrupted).isTrue();
        } finally {
            Files.delete(file.toPath());
            Files.delete(file.getParentFile().toPath());
        }
    }
}
