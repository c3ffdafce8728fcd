package dev.starling.distributed.ps.store;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;

/**
 * A server's part of a job that worker 0 makes all servers do: takes a cut of all rows and writes it, or reads the rows
 * of a checkpoint. Runs on a thread of its own, because it may take long. Worker 0 identifies it by a number, so it can
 * repeat its request.
 */
public final class RowTask {
    // ---- requests of worker 0 ----

    /** Take a cut and write it. Arguments: file, step. */
    public static final int SAVE = 1;
    /** Only report the state. */
    public static final int QUERY = 2;
    /** Read parts. Arguments: number of parts; of each, file and checksum. */
    public static final int RESTORE = 3;

    // ---- states ----

    /** The server does not know the task. */
    public static final int UNKNOWN = 0;
    /** The task has not started. */
    static final int WAITING = 1;
    /** The cut is taken, or reading has started. */
    public static final int RUNNING = 2;
    /** All rows are on the disk. */
    public static final int DONE = 3;
    public static final int FAILED = 4;

    /** The work of a task. */
    public interface Body {
        /** Does the work; returns the result, a text that the server sends to worker 0. */
        String run(RowTask task) throws IOException;
    }

    public final long id;
    private final Path file;
    private volatile int state = WAITING;
    private volatile long progress;
    private volatile boolean cancelled;
    private volatile String text = "";
    private Thread thread;

    /**
     * Creates a task that has not started.
     *
     * @param file that the error text names, unless the failure names another
     */
    public RowTask(long id, Path file) {
        this.id = id;
        this.file = file;
    }

    /** Starts the body on a new thread, or runs it in the calling thread if {@code threadName} is {@code null}. */
    public synchronized void begin(Body body, String threadName) {
        state = RUNNING;
        if (threadName == null) {
            run(body);
        } else {
            thread = Thread.ofPlatform().daemon().name(threadName).start(() -> run(body));
        }
    }

    private void run(Body body) {
        try {
            text = body.run(this);
            state = DONE;
        } catch (RowException e) {
            fail(e.path, e.getMessage());
        } catch (FileSystemException e) {
            fail(e.getFile() == null ? file : Path.of(e.getFile()), e.getClass().getSimpleName()
                    + (e.getReason() == null ? "" : ": " + e.getReason()));
        } catch (IOException | RuntimeException e) {
            fail(file, e.toString());
        }
    }

    /** Marks the task as failed. */
    void fail(Path path, String problem) {
        text = path + "\n" + problem;
        state = FAILED;
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

    public int state() {
        return state;
    }

    public boolean isOver() {
        return state == DONE || state == FAILED;
    }

    /** Returns the body's result; of a failed task, the file and the problem. */
    public String text() {
        return text;
    }

    /** Counts a row, so that worker 0 sees progress. */
    void advance() {
        progress++;
    }

    public long progress() {
        return progress;
    }

    /** Requests the body to end early. */
    public void cancel() {
        cancelled = true;
    }

    boolean isCancelled() {
        return cancelled;
    }

    /** Waits until the body has ended. */
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
