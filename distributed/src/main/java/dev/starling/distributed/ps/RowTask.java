package dev.starling.distributed.ps;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;

/**
 * What a server does with all its rows at once, at worker 0's wish: takes a cut and writes it, or reads what was
 * written. On a thread of its own, as it may take long; known by a number, so that it can be asked for again and again.
 */
final class RowTask {
    // ---- what worker 0 wishes ----

    /** Take a cut and write it: the file, and the step. */
    static final int SAVE = 1;
    /** Only tell how far the task is. */
    static final int ASK = 2;
    /** Read parts: how many, and of each the file, its length and its checksum. */
    static final int RESTORE = 3;

    // ---- how far a server is ----

    /** It knows nothing of this task. */
    static final int UNKNOWN = 0;
    /** It has not begun. */
    static final int WAITING = 1;
    /** The cut is taken, or reading has begun. */
    static final int UNDER_WAY = 2;
    /** All is on the disk. */
    static final int DONE = 3;
    static final int FAILED = 4;

    /** What is done; the text that it returns is told to worker 0. */
    interface Body {
        /** Does it. */
        String run(RowTask task) throws IOException;
    }

    final long id;
    private final Path file;
    private volatile int state = WAITING;
    private volatile long progress;
    private volatile boolean isCancelled;
    private volatile String text = "";
    private Thread thread;

    /**
     * Makes a task that has not begun.
     *
     * @param file is named if it fails, unless the failure names another
     */
    RowTask(long id, Path file) {
        this.id = id;
        this.file = file;
    }

    /** Begins; returns at once if there is a thread, else when it is done. */
    synchronized void begin(Body body, String threadName) {
        state = UNDER_WAY;
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

    /** Ends it without success. */
    void fail(Path path, String problem) {
        text = path + "\n" + problem;
        state = FAILED;
    }

    /** A file that is not as it should be. */
    static final class RowException extends IOException {
        private static final long serialVersionUID = 1L;

        private final transient Path path;

        RowException(Path path, String problem) {
            super(problem);
            this.path = path;
        }
    }

    int state() {
        return state;
    }

    boolean isOver() {
        return state == DONE || state == FAILED;
    }

    /** Returns what the body returned; of a task that failed, the file and what is wrong. */
    String text() {
        return text;
    }

    /** Counts rows, so that those who wait see that it goes on. */
    void advance() {
        progress++;
    }

    long progress() {
        return progress;
    }

    /** Has the body end soon. */
    void cancel() {
        isCancelled = true;
    }

    boolean isCancelled() {
        return isCancelled;
    }

    /** Waits until the body has ended. */
    void join() {
        Thread running;
        synchronized (this) {
            running = thread;
        }
        if (running != null) {
            ServerCore.join(running);
        }
    }
}
