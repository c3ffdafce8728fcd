package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.text.MessageFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SecretTest {
    private static final String HEX = "00112233445566778899aabbccddeeff";

    @TempDir
    private Path directory;

    private Path file(String permissions) throws IOException {
        Path file = Files.writeString(directory.resolve("secret"), HEX + "\n");
        return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
    }

    /** Returns what is logged while a secret is read. */
    private static List<String> log(Path file) {
        List<String> lines = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                lines.add(MessageFormat.format(entry.getMessage(), entry.getParameters()));
            }

            @Override
            public void flush() { }

            @Override
            public void close() { }
        };
        Logger logger = Logger.getLogger("dev.starling.transport");
        logger.addHandler(handler);
        try {
            assertThat(Secret.read(file).toHex()).isEqualTo(HEX);
        } finally {
            logger.removeHandler(handler);
        }
        return lines;
    }

    @Test
    void warnsOfAFileThatAllUsersCanRead() throws IOException {
        Path file = file("rw-r--r--");
        assertThat(log(file)).containsExactly("all users of this host can read the secret in " + file + ": chmod 600 "
                + file);
        assertThat(log(file("rw-r-----"))).isEmpty();
    }

    @Test
    void namesAFileThatIsMissing() {
        assertThatThrownBy(() -> Secret.read(directory.resolve("none"))).isInstanceOf(TransportException.class)
                .hasMessageContaining("cannot read the secret in " + directory.resolve("none"));
    }
}
