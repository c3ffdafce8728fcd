package dev.starling.nn.checkpoint;

import dev.starling.errors.StarlingException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint or file of weights that cannot be written or read, or does not match the model. The message names the
 * file and the remedy.
 */
public final class CheckpointException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final transient @Nullable Path path;
    private final String problem;
    private final String remedy;

    /**
     * Creates an exception.
     *
     * @param path the file or directory concerned
     * @param problem what is wrong
     * @param remedy what the reader of the message can do about it
     * @param cause the underlying failure, or {@code null}
     */
    public CheckpointException(Path path, String problem, String remedy, @Nullable Throwable cause) {
        this(path, path.toString(), problem, remedyOf(cause, remedy), cause);
    }

    private CheckpointException(@Nullable Path path, String name, String problem, String remedy,
            @Nullable Throwable cause) {
        super(name + ": " + problem + "; " + remedy, cause);
        this.path = path;
        this.problem = problem;
        this.remedy = remedy;
    }

    /** Returns an exception about tensors that are not in a file. */
    static CheckpointException inMemory(String problem, String remedy, @Nullable Throwable cause) {
        return new CheckpointException(null, "tensors in memory", problem, remedy, cause);
    }

    /** A file is not to be replaced or deleted because this process closed it. */
    private static String remedyOf(@Nullable Throwable cause, String otherwise) {
        if (cause instanceof ClosedByInterruptException) {
            return "the thread is interrupted: use one that is not; existing files are intact";
        }
        return cause instanceof ClosedChannelException ? "keep the file open while it is read" : otherwise;
    }

    /** Returns the file or directory concerned, or {@code null} if there is none or after deserialisation. */
    public @Nullable Path path() {
        return path;
    }

    /** Returns what is wrong. */
    public String problem() {
        return problem;
    }

    /** Returns the remedy. */
    public String remedy() {
        return remedy;
    }
}
