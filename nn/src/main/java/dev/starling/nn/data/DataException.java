package dev.starling.nn.data;

import dev.starling.errors.PlainFile;
import dev.starling.errors.StarlingException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Data that cannot be used: a file that is missing, truncated, corrupt or of another kind, or a download that failed.
 * The message names the file, what was expected, what was found, and the remedy, in one line.
 */
public final class DataException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final transient Path path;
    private final String expected;
    private final String found;
    private final String remedy;

    /**
     * Creates an exception without a cause.
     *
     * @param path the file or directory concerned
     * @param expected what it should have been or contained
     * @param found what it was or contained instead
     * @param remedy what the reader of the message can do about it
     */
    public DataException(Path path, String expected, String found, String remedy) {
        this(path, expected, found, remedy, null);
    }

    /**
     * Creates an exception.
     *
     * @param path the file or directory concerned
     * @param expected what it should have been or contained
     * @param found what it was or contained instead
     * @param remedy what the reader of the message can do about it
     * @param cause the underlying failure, or null
     */
    public DataException(Path path, String expected, String found, String remedy, @Nullable Throwable cause) {
        super(path + ": expected " + expected + ", found " + found + "; " + remedy, cause);
        this.path = path;
        this.expected = expected;
        this.found = found;
        this.remedy = remedy;
    }

    /** Throws if something other than a file is at a path: a pipe would block its reader without limit. */
    static void requireFile(Path path, String expected) {
        if (PlainFile.isOther(path)) {
            throw new DataException(path, expected, PlainFile.OTHER, PlainFile.REMEDY);
        }
    }

    /** Returns the file or directory concerned, or null after deserialisation. */
    public @Nullable Path path() {
        return path;
    }

    /** Returns what the file should have been or contained. */
    public String expected() {
        return expected;
    }

    /** Returns what the file was or contained instead. */
    public String found() {
        return found;
    }

    /** Returns the remedy. */
    public String remedy() {
        return remedy;
    }
}
