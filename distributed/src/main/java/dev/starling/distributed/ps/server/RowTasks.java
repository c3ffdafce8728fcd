package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.store.RowTask;
import java.io.IOException;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The {@link RowTask} that worker 0 requested last. A repeated request only makes the server report the task's state. A
 * new task starts when the previous one, which worker 0 no longer waits for, has ended. Used under the group's lock.
 */
final class RowTasks {
    /** The only file names that a server accepts from a worker. */
    private static final Pattern PART = Pattern.compile("step-\\d{1,18}-[0-9a-f]{8}-\\d{1,9}\\.rows");

    /** The last task, or {@code null} before the first. */
    private @Nullable RowTask task;
    private long requested;
    /** The kind of state that worker 0 knows, or {@code null}. */
    private @Nullable Class<?> reported;
    private long reportedRows;

    /** Handles a request of worker 0. */
    void onRequest(@Nullable ServerCore core, byte[] encoded) throws IOException {
        RowRequest request = RowRequest.CODEC.decode(encoded);
        requested = request.id();
        reported = null;
        if (core == null || task != null && task.id == requested) {
            return;
        }
        switch (request.action()) {
            case RowRequest.Query _ -> { }
            case RowRequest.Action _ when task != null && !task.state().isOver() -> task.cancel();
            case RowRequest.Save save -> {
                if (PART.matcher(save.file().getFileName().toString()).matches()) {
                    task = core.save(requested, save.file(), save.step());
                }
            }
            case RowRequest.Restore restore -> task = core.restore(requested, restore.parts());
        }
    }

    /** Returns what to report if worker 0 has requested it, or the kind of state has changed since; else null. */
    RowState.@Nullable Report pollReport() {
        RowState state = state();
        if (requested == 0 || state.getClass() == reported) {
            return null;
        }
        reported = state.getClass();
        return new RowState.Report(requested, state);
    }

    /** Returns whether a task has made progress since the last call. */
    boolean pollProgress() {
        long rows = task == null ? 0 : task.rows();
        boolean advanced = rows != reportedRows;
        reportedRows = rows;
        return advanced;
    }

    /** Returns the state of the requested task. */
    RowState state() {
        return task == null || task.id != requested ? new RowState.Unknown() : task.state();
    }
}
