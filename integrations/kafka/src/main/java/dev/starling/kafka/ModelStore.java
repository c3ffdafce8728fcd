package dev.starling.kafka;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** Reads the files that announcements name. */
@FunctionalInterface
public interface ModelStore {
    /** The size of the largest file that fits in an array, in bytes. */
    long MAX_BYTES = Integer.MAX_VALUE - 8;

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
            // Reading a device or a pipe might never end.
            if (!Files.exists(file)) {
                throw new NoSuchFileException(uri);
            }
            if (!Files.isRegularFile(file) || Files.size(file) > MAX_BYTES) {
                throw new IOException(uri + " must be a regular file of at most " + MAX_BYTES + " bytes");
            }
            return Files.readAllBytes(file);
        };
    }
}
