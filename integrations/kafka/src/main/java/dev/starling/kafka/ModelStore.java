package dev.starling.kafka;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;

/** Fetches the files that announcements name. */
@FunctionalInterface
public interface ModelStore {
    /**
     * Returns the bytes of a file; called on the thread that watches the topic of models.
     *
     * @throws IOException if there is no such file or it cannot be read
     */
    byte[] read(String uri) throws IOException;

    /** The file systems of this machine: paths and {@code file:} URIs. */
    static ModelStore files() {
        return uri -> Files.readAllBytes(uri.startsWith("file:") ? Path.of(URI.create(uri)) : Path.of(uri));
    }
}
