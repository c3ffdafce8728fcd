package dev.starling.nn.data;

import dev.starling.errors.StarlingException;
import java.nio.file.Path;

/**
 * Data that cannot be used: a file that is absent, truncated, corrupt or not what it should be, or a download that
 * failed. The message names the file, what was expected, what was found and what to do about it, in one line.
 */
public final class DataException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final transient Path path;
    private final String expected;
    private final String found;
    private final String remedy;

    /**
     * Data that cannot be used, with no failure underneath.
     *
     * @param path the file or directory concerned
     * @param expected what it should have been or held
     * @param found what it was or held instead
     * @param remedy what the reader of the message can do about it
     */
    public DataException(Path path, String expected, String found, String remedy) {
        this(path, expected, found, remedy, null);
    }

    /**
     * Data that cannot be used.
     *
     * @param path the file or directory concerned
     * @param expected what it should have been or held
     * @param found what it was or held instead
     * @param remedy what the reader of the message can do about it
     * @param cause the failure underneath, or null
     */
    public DataException(Path path, String expected, String found, String remedy, Throwable cause) {
        super(path + ": expected " + expected + ", found " + found + "; " + remedy, cause);
        this.path = path;
        this.expected = expected;
        this.found = found;
        this.remedy = remedy;
    }

    /** The file or directory concerned; null after deserialisation. */
    public Path path() {
        return path;
    }

    /** What the file should have been or held. */
    public String expected() {
        return expected;
    }

    /** What the file was or held instead. */
    public String found() {
        return found;
    }

    /** What to do about it. */
    public String remedy() {
        return remedy;
    }
}
