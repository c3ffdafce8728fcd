package dev.starling.distributed.ps;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The task with rows that a server was last asked for. Who asks again is told how far it is; a new one begins when the
 * one before, which nobody waits for any more, has ended. To be used under the group's lock.
 */
final class RowTasks {
    /** A server writes nothing else at the wish of others. */
    private static final Pattern PART = Pattern.compile("step-\\d{1,18}-[0-9a-f]{8}-\\d{1,9}\\.rows");
    private static final int MAX_PARTS = 1 << 16;

    private RowTask task;
    private long asked;
    private int toldState;
    private long toldProgress;

    /** Takes a wish of worker 0, which begins with its number and kind. */
    void take(ServerCore core, byte[] wish) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(wish));
        asked = in.readLong();
        int what = in.readInt();
        toldState = -1;
        if (core == null || task != null && task.id == asked || what == RowTask.ASK) {
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
                RowTask begun = new RowTask(asked, file);
                task = core.save(begun, file, step) ? begun : null;
            }
        } else if (what == RowTask.RESTORE) {
            int n = in.readInt();
            if (n < 1 || n > MAX_PARTS) {
                return;
            }
            List<RowRestoring.Source> parts = new ArrayList<>();
            for (int p = 0; p < n; p++) {
                parts.add(new RowRestoring.Source(Path.of(in.readUTF()), in.readUTF()));
            }
            task = new RowTask(asked, parts.getFirst().path());
            core.restore(task, parts);
        }
    }

    /** Returns whether who asks is to be told something new, and notes that it is. */
    boolean isNews() {
        boolean isNews = asked != 0 && state() != toldState;
        toldState = isNews ? state() : toldState;
        return isNews;
    }

    /** Returns whether a task went on since this was last asked. */
    boolean isWorking() {
        long progress = task == null ? 0 : task.progress();
        boolean isWorking = progress != toldProgress;
        toldProgress = progress;
        return isWorking;
    }

    long asked() {
        return asked;
    }

    /** Returns how far the task is that was asked for. */
    int state() {
        return task == null || task.id != asked ? RowTask.UNKNOWN : task.state();
    }

    long progress() {
        return state() == RowTask.UNKNOWN ? 0 : task.progress();
    }

    String text() {
        return state() == RowTask.UNKNOWN ? "" : task.text();
    }
}
