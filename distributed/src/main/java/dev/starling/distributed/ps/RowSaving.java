package dev.starling.distributed.ps;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Writes the rows of a server as they are at a cut, while they change. Two threads hand rows over: one goes through the
 * tables, the other is about to change rows that the first has not come to ({@link EmbeddingRows}). Memory is bounded:
 * what is handed over goes to the file.
 */
final class RowSaving implements RowTask.Body {
    private static final String THREAD = "starling-ps-%d-rows";

    final RowTask task;
    private final Path file;
    private final long step;
    private final boolean hasThread;
    private Plan plan;
    private int server;
    private EmbeddingRows[] tables;
    private CheckedFile out;
    private long rows;
    private boolean isClosed;
    private IOException failure;

    /**
     * Makes a saving that has not begun.
     *
     * @param file to be written; what fails is told by the task
     */
    RowSaving(RowTask task, Path file, long step, boolean hasThread) {
        this.task = task;
        this.file = file;
        this.step = step;
        this.hasThread = hasThread;
    }

    /**
     * Takes the cut, in the thread that changes rows.
     *
     * @param sequence of the journal's last record, which is on the disk
     */
    void begin(Plan of, int ofServer, EmbeddingRows[] all, long sequence) {
        plan = of;
        server = ofServer;
        tables = all;
        for (int t = 0; t < tables.length; t++) {
            tables[t].cut(sequence, taker(t));
        }
        task.begin(this, hasThread ? THREAD.formatted(server) : null);
    }

    private EmbeddingRows.Cut taker(int table) {
        return (key, row) -> take(table, key, row);
    }

    private synchronized void take(int table, long key, byte[] row) {
        if (isClosed || failure != null) {
            return;
        }
        try {
            if (out == null) {
                open();
            }
            RowFile.putRow(out, table, key, row, tables[table].rowBytes());
            rows++;
            task.advance();
        } catch (IOException e) {
            // The thread that changes rows has other cares; the one that writes tells.
            failure = e;
        }
    }

    private void open() throws IOException {
        out = CheckedFile.write(file);
        RowFile.putHeader(out, plan, server, step);
    }

    @Override
    public String run(RowTask running) throws IOException {
        try {
            for (int t = 0; t < tables.length; t++) {
                EmbeddingRows.Cut taker = taker(t);
                while (!isOver() && tables[t].scan(taker)) {
                    // until all segments were handed over
                }
            }
            return commit();
        } finally {
            for (EmbeddingRows table : tables) {
                table.endCut();
            }
            close();
        }
    }

    private synchronized boolean isOver() {
        return task.isCancelled() || failure != null;
    }

    private synchronized String commit() throws IOException {
        isClosed = true;
        if (failure != null) {
            throw failure;
        }
        if (task.isCancelled()) {
            throw new RowTask.RowException(file, "was given up");
        }
        if (out == null) {
            open();
        }
        RowFile.putEnd(out, rows);
        String checksum = RowFile.checksum(out.commit());
        return file.getFileName() + "\n" + Files.size(file) + "\n" + checksum;
    }

    private synchronized void close() throws IOException {
        isClosed = true;
        if (out != null) {
            out.close();
        }
    }
}
