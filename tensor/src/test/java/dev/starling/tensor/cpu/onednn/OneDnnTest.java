package dev.starling.tensor.cpu.onednn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OneDnnTest {
    /** Prints whether oneDNN is available. */
    static final class Probe {
        private Probe() {
        }

        public static void main(String[] arguments) {
            System.out.println(OneDnn.available() ? "loaded" : OneDnn.description());
        }
    }

    @Test
    void loadsFromAThreadWithLittleStack() throws Exception {
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xss512k", "-XX:+UseSerialGC", "-Xmx256m", "--enable-native-access=ALL-UNNAMED", "-cp",
            System.getProperty("java.class.path"), Probe.class.getName()).redirectErrorStream(true).start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            assertThat(new String(process.getInputStream().readAllBytes()).strip()).endsWith("loaded");
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void findsAFileOfAModuleInTheRuntimeImage() throws Exception {
        assertThat(OneDnn.inModule("java.base", "java/lang/Object.class")).hasProtocol("jrt");
        assertThatThrownBy(() -> OneDnn.inModule("no.such", "file")).isInstanceOf(UnsatisfiedLinkError.class)
            .hasMessageContaining("runtime image").hasMessageContaining("has to resolve no.such");
    }

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
