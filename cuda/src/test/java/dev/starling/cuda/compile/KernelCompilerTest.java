package dev.starling.cuda.compile;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.gpu.Compiler;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KernelCompilerTest {
    private static final KernelSource SOURCE = new KernelSource("name", "function", "text");

    @TempDir
    private Path folder;

    /** Counts its calls. */
    private static final class Counting implements Compiler {
        private final String version;
        private int calls;

        Counting(String version) {
            this.version = version;
        }

        @Override
        public String version() {
            return version;
        }

        @Override
        public byte[] compile(String name, String source, String architecture) {
            calls++;
            return (source + " for " + architecture + " by " + version).getBytes(StandardCharsets.UTF_8);
        }
    }

    private static String compile(Compiler compiler, String architecture, Path folder) {
        return new String(new KernelCompiler(compiler, architecture, folder).compile(SOURCE), StandardCharsets.UTF_8);
    }

    @Test
    void compilesAProgramOnceForAllProcesses() {
        Counting compiler = new Counting("v1");
        for (int i = 0; i < 3; i++) {
            assertThat(compile(compiler, "sm_90", folder)).isEqualTo("text for sm_90 by v1");
        }
        assertThat(compiler.calls).isEqualTo(1);
    }

    @Test
    void compilesForEachArchitectureAndCompiler() {
        Counting old = new Counting("v1");
        compile(old, "sm_90", folder);
        assertThat(compile(old, "sm_100", folder)).isEqualTo("text for sm_100 by v1");
        assertThat(compile(new Counting("v2"), "sm_90", folder)).isEqualTo("text for sm_90 by v2");
    }

    @Test
    void compilesADamagedFileAgain() throws IOException {
        Counting compiler = new Counting("v1");
        compile(compiler, "sm_90", folder);
        Path file = onlyFile();
        byte[] bytes = Files.readAllBytes(file);
        bytes[3] ^= 1;
        Files.write(file, bytes);
        assertThat(compile(compiler, "sm_90", folder)).isEqualTo("text for sm_90 by v1");
        Files.write(file, new byte[5]);
        assertThat(compile(compiler, "sm_90", folder)).isEqualTo("text for sm_90 by v1");
        assertThat(compiler.calls).isEqualTo(3);
        assertThat(compile(compiler, "sm_90", folder)).isEqualTo("text for sm_90 by v1");
        assertThat(compiler.calls).isEqualTo(3);
    }

    private Path onlyFile() throws IOException {
        try (var files = Files.list(folder)) {
            List<Path> all = files.toList();
            assertThat(all).hasSize(1);
            return all.getFirst();
        }
    }

    @Test
    void leavesNothingOfAProgramThatCannotBeStored() throws IOException {
        compile(new Counting("v1"), "sm_90", folder);
        Path file = onlyFile();
        Files.delete(file);
        Files.createDirectories(file.resolve("in the way"));
        assertThat(compile(new Counting("v1"), "sm_90", folder)).isEqualTo("text for sm_90 by v1");
        assertThat(onlyFile()).isEqualTo(file);
    }

    @Test
    void worksWithoutAUsableFolder() throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "in the way");
        assertThat(compile(new Counting("v1"), "sm_90", file.resolve("below"))).isEqualTo("text for sm_90 by v1");
    }

    @Test
    void specialisesSourcesByMacros() {
        KernelSource source = KernelSource.of("fill", "progression", "T", "bf16");
        assertThat(source.name()).isEqualTo("fill.progression<T=bf16>");
        assertThat(source.text()).contains("#define T bf16\n").containsSubsequence("typedef float f32",
                "#define T bf16", "void progression(");
        assertThat(KernelSource.of("fill", "progression", "A", 3, "B", true, "C", false).name())
                .isEqualTo("fill.progression<A=3, B=1, C=0>");
        assertThatThrownBy(() -> KernelSource.of("missing", "f")).hasMessageContaining("missing.cu");
    }
}
