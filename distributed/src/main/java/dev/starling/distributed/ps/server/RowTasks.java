package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.store.RowRestorer;
import dev.starling.distributed.ps.store.RowTask;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The {@link RowTask} that worker 0 requested last. A repeated request only makes the server report the task's state. A
 * new task starts when the previous one, which worker 0 no longer waits for, has ended. Used under the group's lock.
 */
final class RowTasks {
    /** The only file names that a server accepts from a worker. */
    private static final Pattern PART = Pattern.compile("step-\\d{1,18}-[0-9a-f]{8}-\\d{1,9}\\.rows");
    private static final int MAX_PARTS = 1 << 16;

    private RowTask task;
    private long requested;
    private int reportedState;
    private long reportedProgress;

    /** Handles a request of worker 0: id, kind, arguments. */
    void onRequest(ServerCore core, byte[] request) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(request));
        requested = in.readLong();
        int what = in.readInt();
        reportedState = -1;
        if (core == null || task != null && task.id == requested || what == RowTask.QUERY) {
            return;
        }
        if (task != null && !task.isOver()) {
            task.cancel();
            return;
        }
        if (what == RowTask.SAVE) {
            Path file = Path.of(in.readUTF());
            long step = in.readLong();
            if (PART.matcher(file.getFileName().toString()).matches()) {
                RowTask started = new RowTask(requested, file);
                task = core.save(started, file, step) ? started : null;
            }
        } else if (what == RowTask.RESTORE) {
            int n = in.readInt();
            if (n < 1 || n > MAX_PARTS) {
                return;
            }
            List<RowRestorer.Source> parts = new ArrayList<>();
            for (int p = 0; p < n; p++) {
                parts.add(new RowRestorer.Source(Path.of(in.readUTF()), in.readUTF()));
            }
            task = new RowTask(requested, parts.getFirst().path());
            core.restore(task, parts);
        }
    }

    /** Returns whether worker 0 requested a report, or the state changed, since the last call. */
    boolean pollChange() {
        boolean changed = requested != 0 && state() != reportedState;
        reportedState = changed ? state() : reportedState;
        return changed;
    }

    /** Returns whether a task has made progress since the last call. */
    boolean pollProgress() {
        long progress = task == null ? 0 : task.progress();
        boolean advanced = progress != reportedProgress;
        reportedProgress = progress;
        return advanced;
    }

    /** Returns the id of the requested task. */
    long requested() {
        return requested;
    }

    /** Returns the state of the requested task. */
    int state() {
        return task == null || task.id != requested ? RowTask.UNKNOWN : task.state();
    }

    long progress() {
        return state() == RowTask.UNKNOWN ? 0 : task.progress();
    }

    String text() {
        return state() == RowTask.UNKNOWN ? "" : task.text();
    }
}
