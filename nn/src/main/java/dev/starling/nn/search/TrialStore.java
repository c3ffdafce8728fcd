package dev.starling.nn.search;

import dev.starling.errors.PlainFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** Where the results of trials are kept, a small text each, so that a search can be resumed. */
public interface TrialStore {
    /** Returns a text, or {@code null} if there is none of this name. */
    @Nullable String read(String name) throws IOException;

    /** Writes a text as a whole or not at all, in place of one of the same name. */
    void write(String name, String text) throws IOException;

    /** Throws if texts cannot be written; a search asks before it trains. The default implementation does nothing. */
    default void requireWritable() throws IOException { }

    /** Keeps files in a directory, which is made if it is not there. */
    static TrialStore of(Path directory) {
        return new TrialStore() {
            @Override
            public @Nullable String read(String name) throws IOException {
                try {
                    return Files.readString(directory.resolve(name));
                } catch (NoSuchFileException e) {
                    return null;
                }
            }

            @Override
            public void write(String name, String text) throws IOException {
                Files.createDirectories(directory);
                Path target = PlainFile.target(directory.resolve(name));
                Path draft = PlainFile.draft(target);
                try {
                    Files.writeString(draft, text);
                    PlainFile.rename(draft, target);
                } finally {
                    Files.deleteIfExists(draft);
                }
            }

            @Override
            public void requireWritable() throws IOException {
                Files.createDirectories(directory);
                Files.delete(Files.createTempFile(directory, "writable", ".draft"));
            }

            @Override
            public String toString() {
                return directory.toString();
            }
        };
    }
}
