package dev.starling.tensor.cpu.onednn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.errors.ThreadException;
import java.io.File;
import java.lang.foreign.SymbolLookup;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
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
    void looksForTheLibraryAgainWhenTheThreadThatLoadsItCouldNotStart() {
        AtomicInteger tries = new AtomicInteger();
        Callable<SymbolLookup> second = () -> {
            if (tries.incrementAndGet() == 1) {
                // The stack is larger than the address space.
                ThreadException.start(Thread.ofPlatform().stackSize(1L << 60).unstarted(() -> { }));
            }
            return SymbolLookup.loaderLookup();
        };
        OneDnn.Library soon = new OneDnn.Library(second, 0);
        assertThat(soon.lookup()).isNull();
        assertThat(soon.lookup()).isNotNull().isSameAs(soon.lookup());
        assertThat(tries).hasValue(2);
        tries.set(0);
        OneDnn.Library later = new OneDnn.Library(second, Long.MAX_VALUE);
        assertThat(later.lookup()).isNull();
        assertThat(later.lookup()).isNull();
        assertThat(tries).hasValue(1);
    }

    @Test
    void looksOnceForALibraryThatIsMissing() {
        AtomicInteger tries = new AtomicInteger();
        OneDnn.Library missing = new OneDnn.Library(() -> NewThread.run("test", () -> {
            tries.incrementAndGet();
            throw new UnsatisfiedLinkError("none");
        }), 0);
        assertThat(missing.lookup()).isNull();
        assertThat(missing.lookup()).isNull();
        assertThat(tries).hasValue(1);
    }

    @Test
    void namesWhatRefusesExecutableMemory() {
        for (int shortage : new int[] {1, 5}) {
            assertThat(new OneDnnException("creating a primitive", shortage)).hasMessageContaining("execmem")
                .hasMessageContaining("MemoryDenyWriteExecute");
        }
        assertThat(new OneDnnException("convolution", 3)).hasMessage("oneDNN: convolution: unimplemented");
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
