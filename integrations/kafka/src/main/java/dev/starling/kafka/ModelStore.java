package dev.starling.kafka;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** Fetches the files that announcements name. */
@FunctionalInterface
public interface ModelStore {
    /** The largest file that an array holds, in bytes. */
    long LARGEST = Integer.MAX_VALUE - 8;

    /**
     * Returns the bytes of a file; called on the thread that watches the topic of models.
     *
     * @throws IOException if there is no such file or it cannot be read
     */
    byte[] read(String uri) throws IOException;

    /** The file systems of this machine: paths and {@code file:} URIs of regular files. */
    static ModelStore files() {
        return uri -> {
            Path file = uri.startsWith("file:") ? Path.of(URI.create(uri)) : Path.of(uri);
            // A device or a pipe could be read for ever.
            if (!Files.exists(file)) {
                throw new NoSuchFileException(uri);
            }
            if (!Files.isRegularFile(file) || Files.size(file) > LARGEST) {
                throw new IOException(uri + " must be a regular file of at most " + LARGEST + " bytes");
            }
            return Files.readAllBytes(file);
        };
    }
}
