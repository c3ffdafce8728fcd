package dev.starling.study;

import dev.starling.errors.PlainFile;
import dev.starling.nn.data.DataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes a file as a whole: what it held before stays until the new content is complete. */
final class WholeFile {
    private WholeFile() {
    }

    /** Writes the content of a file. */
    @FunctionalInterface
    interface Content {
        /** Writes all of it to {@code draft}. */
        void writeTo(Path draft) throws IOException;
    }

    /**
     * Writes a draft beside {@code file}, whose directory is created if absent, and renames it to {@code file} when it
     * is complete.
     *
     * @param file may be a symbolic link, whose target is replaced
     * @throws DataException if it cannot be written
     */
    static void write(Path file, Content content) {
        try {
            Files.createDirectories(file.toAbsolutePath().getParent());
            Path target = PlainFile.target(file);
            Path draft = PlainFile.draft(target);
            try {
                content.writeTo(draft);
                PlainFile.rename(draft, target);
            } finally {
                Files.deleteIfExists(draft);
            }
        } catch (IOException e) {
            throw new DataException(file, "a file that can be written", e.toString(),
                    "free some space, or choose another place", e);
        }
    }
}
