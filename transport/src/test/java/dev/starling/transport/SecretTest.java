package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SecretTest {
    private static final String HEX = "00112233445566778899aabbccddeeff";

    @TempDir
    private Path directory;

    private Path file(String permissions) throws IOException {
        Path file = Files.writeString(directory.resolve("secret"), HEX + "\n");
        return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw-r--r--", "rw-----w-"})
    void refusesAFileThatAllUsersCanReadOrChange(String permissions) throws IOException {
        Path file = file(permissions);
        assertThatThrownBy(() -> Secret.read(file)).isInstanceOf(TransportException.class)
                .hasMessageContaining("all users of this host can read or change the secret in " + file)
                .hasMessageContaining("chmod 600 " + file);
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw-------", "r--r-----"})
    void readsAFileOfTheUserOrItsGroup(String permissions) throws IOException {
        assertThat(Secret.read(file(permissions)).toHex()).isEqualTo(HEX);
    }

    @Test
    void namesAFileThatIsMissing() {
        assertThatThrownBy(() -> Secret.read(directory.resolve("none"))).isInstanceOf(TransportException.class)
                .hasMessageContaining("cannot read the secret in " + directory.resolve("none"));
    }
}
