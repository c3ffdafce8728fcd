package dev.starling.distributed.ps.store;

import dev.starling.errors.ThreadException;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * A server's part of a job that worker 0 makes all servers do: takes a cut of all rows and writes it, or reads the rows
 * of a checkpoint. Runs on a thread of its own, because it may take long.
 */
public abstract sealed class RowTask permits RowSaver, RowRestorer {
    public final long id;
    private final Path file;
    private volatile boolean begun;
    private volatile long rows;
    /** The final state, or {@code null}. */
    private volatile @Nullable RowState end;
    private volatile boolean cancelled;
    /** {@code null} if the caller's thread does the task. */
    private @Nullable Thread thread;

    /**
     * Creates a task that has not started.
     *
     * @param file that the error names, unless the failure names another
     */
    RowTask(long id, Path file) {
        this.id = id;
        this.file = file;
    }

    /** Does the work; returns the final state. */
    abstract RowState work() throws IOException;

    /** Starts the work on a new thread, or does it in the calling thread if {@code threadName} is {@code null}. */
    public synchronized void begin(@Nullable String threadName) {
        begun = true;
        if (threadName == null) {
            run();
        } else {
            thread = ThreadException.start(Thread.ofPlatform().daemon().name(threadName).unstarted(this::run));
        }
    }

    private void run() {
        try {
            end = work();
        } catch (RowException e) {
            fail(e.path, String.valueOf(e.getMessage()));
        } catch (FileSystemException e) {
            fail(e.getFile() == null ? file : Path.of(e.getFile()), e.getClass().getSimpleName()
                    + (e.getReason() == null ? "" : ": " + e.getReason()));
        } catch (IOException | RuntimeException | Error e) {
            // Errors, too: worker 0 would wait for a task that stays in progress, and no other one could start.
            fail(file, e.toString());
        }
    }

    private void fail(Path path, String problem) {
        end = new RowState.Failed(path.toString(), problem);
    }

    /** A file of rows is damaged, missing or of another run. */
    static final class RowException extends IOException {
        private static final long serialVersionUID = 1L;

        private final transient Path path;

        RowException(Path path, String problem) {
            super(problem);
            this.path = path;
        }
    }

    /** Returns the state. */
    public RowState state() {
        RowState last = end;
        return last != null ? last : begun ? new RowState.Running(rows) : new RowState.Waiting();
    }

    /** Counts a row, so that worker 0 sees progress. */
    void advance() {
        rows++;
    }

    /** Returns the number of rows that were written or read. */
    public long rows() {
        return rows;
    }

    /** Requests the work to end early. */
    public void cancel() {
        cancelled = true;
    }

    boolean isCancelled() {
        return cancelled;
    }

    /** Waits until the work has ended. */
    public void join() {
        Thread running;
        synchronized (this) {
            running = thread;
        }
        if (running != null) {
            awaitEnd(running);
        }
    }

    /** Waits until a thread has ended, even if the calling thread is interrupted. */
    public static void awaitEnd(Thread thread) {
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
