package dev.starling.distributed.launch;

import dev.starling.distributed.DistributedException;
import dev.starling.errors.OpenFiles;
import java.io.IOException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A launch could not start, or one of its processes failed. The message contains rank, cause and the last lines of
 * output.
 */
public final class LaunchException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final int status;
    private final transient List<String> lastLines;

    LaunchException(int rank, int status, String message, List<String> lastLines, @Nullable Throwable cause) {
        super(rank, message, cause);
        this.status = status;
        this.lastLines = List.copyOf(lastLines);
    }

    LaunchException(int status, String message) {
        this(-1, status, message, List.of(), null);
    }

    /** Returns the failure of a start; {@code rank} is -1 if it is that of no rank. */
    static LaunchException notStarted(int rank, String what, IOException e) {
        String advice = OpenFiles.remedy(e, "");
        // Java's further lines are guesses about its own installation.
        return new LaunchException(rank, 1, "cannot start " + what + ": " + (advice.isEmpty() ? e.toString()
                : String.valueOf(e.getMessage()).lines().findFirst().orElse("").strip() + "; " + advice), List.of(), e);
    }

    /** Returns the rank of the process to blame, or -1 if the failure was not that of a process. */
    @Override
    public int rank() {
        return super.rank();
    }

    /**
     * Returns the exit status for this process: the failed process's own, 128 + the number of the signal that
     * terminated it, 127 if the command does not exist, 1 otherwise.
     */
    public int status() {
        return status;
    }

    /** Returns the last lines that the failed process wrote to standard output, then those to standard error. */
    public List<String> lastLines() {
        return lastLines;
    }
}
