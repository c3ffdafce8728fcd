package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Secret;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The location of a launch's files: as configured, else where there is room. */
@Tag("processes")
@Timeout(60)
class LaunchDirectoryTest {
    private static final int TOO_MANY = 1_000_000;

    @TempDir
    Path directory;

    /**
     * Measured with {@code du} while that many workers train over Aeron with a coordinator; the growth is quadratic.
     */
    @Test
    void requiresRoomForAllProcessesAndLinks() {
        assertThat(LaunchDirectory.roomBytes(2) >> 10).isBetween(70_708L, 70_708L * 11 / 10);
        assertThat(LaunchDirectory.roomBytes(4) >> 10).isBetween(179_324L, 179_324L * 11 / 10);
    }

    @Test
    void usesMemoryWhereThereIsRoomForAll() throws IOException {
        assertThat(Files.getFileStore(directory).getUsableSpace()).isBetween(LaunchDirectory.roomBytes(1),
                LaunchDirectory.roomBytes(TOO_MANY));
        try (LaunchDirectory one = LaunchDirectory.make(null, directory, 1);
                LaunchDirectory blank = LaunchDirectory.make(" ", directory, 1);
                LaunchDirectory many = LaunchDirectory.make(null, directory, TOO_MANY);
                LaunchDirectory absent = LaunchDirectory.make(null, directory.resolve("absent"), 1)) {
            assertThat(one.path()).hasParent(directory);
            assertThat(blank.path()).hasParent(directory);
            assertThat(many.path()).hasParent(Path.of(System.getProperty("java.io.tmpdir")));
            assertThat(absent.path()).hasParent(Path.of(System.getProperty("java.io.tmpdir")));
        }
    }

    @Test
    void namesTheRemedyForATemporaryDirectoryThatIsMissing() {
        String temporary = System.getProperty("java.io.tmpdir");
        System.setProperty("java.io.tmpdir", directory.resolve("absent").toString());
        try {
            assertThatThrownBy(() -> LaunchDirectory.make(null, directory.resolve("absent"), 1))
                    .isInstanceOf(IOException.class).hasMessageContaining(directory.resolve("absent").toString())
                    .hasMessageContaining(LaunchedProcess.DIRECTORY);
        } finally {
            System.setProperty("java.io.tmpdir", temporary);
        }
    }

    @Test
    void createsADirectoryWhereConfigured() throws IOException {
        Path named = directory.resolve("a/b");
        try (LaunchDirectory made = LaunchDirectory.make(named.toString(), TOO_MANY)) {
            assertThat(made.path()).hasParent(named);
            assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(made.path())))
                    .isEqualTo("rwx------");
        }
        assertThat(named).isEmptyDirectory();
        Path file = Files.createFile(directory.resolve("file"));
        assertThatThrownBy(() -> LaunchDirectory.make(file.toString(), 1)).isInstanceOf(IOException.class)
                .hasMessageContaining(file.toString()).hasMessageContaining("STARLING_DIRECTORY");
    }

    @Test
    void namesTheDirectoryThatCannotBeWritten() throws IOException {
        try (LaunchDirectory made = LaunchDirectory.make(directory.toString(), 1)) {
            Files.createDirectory(made.path().resolve("secret"));
            assertThatThrownBy(() -> made.write(Secret.random())).isInstanceOf(IOException.class)
                    .hasMessageContaining("cannot write to " + made.path()).hasMessageContaining("STARLING_DIRECTORY");
        }
    }

    @Test
    void createsTheProcessesDirectoryWhereTheBuilderSpecifies() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        int status = Launcher.of(List.of("/bin/sh", "-c", "echo $STARLING_DIRECTORY; ls $STARLING_DIRECTORY"))
                .environment("STARLING_DIRECTORY", directory.toString()).output(out, out).run();
        assertThat(status).isZero();
        assertThat(out.toString(StandardCharsets.UTF_8).lines().findFirst().orElseThrow())
                .startsWith("[0] " + directory + "/starling-launch-");
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    void createsTheProcessesDirectoryWhereTheEnvironmentSpecifies() throws Exception {
        ProcessBuilder builder = new ProcessBuilder(JavaCommand.of(LaunchingProgram.class, List.of("/bin/sh", "-c",
                "echo it is $STARLING_DIRECTORY"))).redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().put("STARLING_DIRECTORY", directory.toString());
        Process launcher = builder.start();
        try (BufferedReader lines = launcher.inputReader()) {
            assertThat(lines.lines().filter(line -> line.contains("it is")).toList()).isNotEmpty().allMatch(line ->
                    line.contains("] it is " + directory + "/starling-launch-"));
            assertThat(launcher.waitFor(20, TimeUnit.SECONDS)).isTrue();
        } finally {
            launcher.destroyForcibly();
        }
        assertThat(directory).isEmptyDirectory();
    }
}
